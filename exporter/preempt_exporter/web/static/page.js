// The queue at a glance. Everything comes from api/v1/overview of the server that served this file, and every name in it
// is a stranger's: it reaches the page as text only, with characters that could deceive the eye made visible.

import { LIVE, STATE_TONE, bytes, command, counted, doWords, known, number, orDash, slackWords, span, tone, visible } from "./words.js";

const POLL_MS = 2000;
const MAX_BACKOFF_MS = 60000;
const SLICE = 200;
const OVERSCAN = 6;
const MAX_FILES = 50;
const byId = (id) => document.getElementById(id);

// ---- small pieces of DOM ------------------------------------------------------------------------------------------

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Change text only where it differs, so that selections and screen readers are left alone. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function toned(node, value) {
  if (node.dataset.tone !== value) node.dataset.tone = value;
}

/** Label and value pairs: [label, value, note, tone]. */
function pairs(list, entries) {
  while (list.children.length > entries.length) list.lastChild.remove();
  entries.forEach(([label, value, note, mood], at) => {
    const group = list.children[at] ?? list.appendChild(element("div", {}, element("dt"), element("dd"), element("dd", { class: "note" })));
    say(group.children[0], label);
    say(group.children[1], value);
    say(group.children[2], note ?? "");
    group.children[2].hidden = !note;
    toned(group, mood ?? "");
  });
}

/** A plain table: columns are [title, cell, class]; a cell is text or [text, tone]; the first names the row. */
function table(id, columns, items) {
  const target = byId(id);
  byId(`${id.split("-")[0]}-none`).hidden = items.length > 0;
  target.parentElement.hidden = items.length === 0;
  if (!target.tHead) {
    const titles = columns.map(([title, , kind]) => element("th", { scope: "col", class: kind ?? "" }, title));
    target.append(element("thead", {}, element("tr", {}, ...titles)), element("tbody"));
  }
  const body = target.tBodies[0];
  while (body.rows.length > items.length) body.lastChild.remove();
  items.forEach((item, at) => {
    const row = body.rows[at] ?? body.appendChild(element("tr", {}, ...columns.map(([, , kind], column) =>
      column ? element("td", { class: kind ?? "" }, element("span")) : element("th", { scope: "row" }, element("span")))));
    columns.forEach(([, cell], column) => {
      const value = cell(item);
      const [text, mood] = Array.isArray(value) ? value : [value, ""];
      const place = row.cells[column].firstChild;
      say(place, text);
      place.className = mood ? "pill" : "";
      toned(place, mood);
    });
  });
}

// ---- the tasks: only the rows in view exist --------------------------------------------------------------------------

const view = byId("tasks-window");
const rows = new Map();
let slice = { offset: 0, tasks: [], total: 0, ledger: null };

const taskKey = (task) => JSON.stringify([task.run, task.task_id]);

function rowHeight() {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row-height")) * rem;
}

function inView() {
  const height = rowHeight();
  // The list may have become shorter than the view is scrolled down.
  const first = Math.max(0, Math.min(Math.floor(view.scrollTop / height), slice.total) - OVERSCAN);
  const last = Math.min(slice.total, Math.ceil((view.scrollTop + view.clientHeight) / height) + OVERSCAN);
  return { first, last: Math.max(first, last), height };
}

function makeRow() {
  const row = element("tr", { role: "row" });
  const cells = Array.from({ length: 5 }, () => row.appendChild(element("td", { role: "cell" })));
  const parts = {
    row,
    name: element("bdi", { class: "name" }),
    place: element("bdi", { class: "under" }),
    state: element("span", { class: "pill" }),
    left: element("span", { class: "left" }),
    bar: element("span", { class: "slack", "aria-hidden": "true" }, element("i"), element("b")),
    age: element("span", { class: "under" }),
    tokens: element("span", { class: "tokens" }),
    preempts: element("span", { class: "under" }),
    words: element("span", { class: "words" }),
    code: element("code"),
    copy: element("button", { type: "button" }, "Copy"),
  };
  parts.command = element("span", { class: "command" }, parts.code, parts.copy);
  cells[0].append(parts.name, parts.place);
  cells[1].append(parts.state);
  cells[2].append(parts.left, parts.bar, parts.age);
  cells[3].append(parts.tokens, parts.preempts);
  cells[4].append(parts.words, parts.command);
  parts.copy.addEventListener("click", () => copy(parts));
  return parts;
}

function fillRow(parts, task, index) {
  const mood = tone(task);
  parts.row.setAttribute("aria-rowindex", String(index + 2));
  say(parts.name, visible(task.task_id));
  parts.name.title = visible(task.task_id);
  const place = [task.run && `run ${visible(task.run)}`, `lane ${visible(task.lane)}`].filter(Boolean).join(" · ");
  say(parts.place, place);
  parts.place.title = place;
  say(parts.state, visible(task.state));
  toned(parts.state, STATE_TONE.get(task.state) ?? "quiet");
  say(parts.left, slackWords(task));
  toned(parts.left, mood);
  toned(parts.bar, mood);
  const share = (ms) => `${Math.max(0, Math.min(100, (100 * ms) / task.deadline_ms))}%`;
  const measurable = known(task.deadline_slack_ms) && task.deadline_ms > 0;
  parts.bar.style.setProperty("--fill", task.deadline_slack_ms < 0 ? "100%" : measurable ? share(task.deadline_slack_ms) : "0%");
  parts.bar.lastChild.hidden = !(measurable && task.deadline_slack_ms > 0 && task.restart_cost_ms > 0);
  if (!parts.bar.lastChild.hidden) parts.bar.style.setProperty("--cost", share(task.restart_cost_ms));
  const lost = LIVE.has(task.state) && task.fits_one_more_preemption === false && task.deadline_slack_ms > 0;
  say(parts.age, lost ? "lost by one more" : !known(task.queue_age_ms) ? "" : `age ${orDash(task.queue_age_ms, span)}${known(task.deadline_ms) ? ` of ${span(task.deadline_ms)}` : ""}`);
  say(parts.tokens, orDash(task.restart_tokens) + (known(task.task_budget) ? ` of ${number.format(task.task_budget)}` : ""));
  say(parts.preempts, counted(task.preempts ?? 0, "preemption", "preemptions"));
  const words = doWords(task);
  say(parts.words, words);
  parts.words.title = words;
  const acts = Boolean(task.next_action) && task.next_action !== "none";
  parts.command.hidden = !acts;
  say(parts.code, acts ? command(task, slice.ledger) : "");
  parts.code.title = parts.code.textContent;
  parts.copy.setAttribute("aria-label", `Copy the command for ${visible(task.task_id)}`);
}

function renderTasks() {
  const { first, last, height } = inView();
  const from = Math.min(Math.max(first, slice.offset), slice.offset + slice.tasks.length, slice.total);
  const to = Math.max(from, Math.min(last, slice.offset + slice.tasks.length));
  const focused = document.activeElement;
  const body = byId("tasks-rows");
  const stale = new Set(rows.keys());
  for (let index = from; index < to; index++) {
    const task = slice.tasks[index - slice.offset];
    const key = taskKey(task);
    if (!rows.has(key)) rows.set(key, makeRow());
    stale.delete(key);
    const parts = rows.get(key);
    fillRow(parts, task, index);
    if (body.children[index - from] !== parts.row) body.insertBefore(parts.row, body.children[index - from] ?? null);
  }
  for (const key of stale) {
    rows.get(key).row.remove();
    rows.delete(key);
  }
  byId("tasks-before").style.setProperty("--gap", `${from * height}px`);
  byId("tasks-after").style.setProperty("--gap", `${(slice.total - to) * height}px`);
  byId("tasks-table").setAttribute("aria-rowcount", String(slice.total + 1));
  // A row that moved has lost its focus on the way.
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  return first >= slice.offset && last <= slice.offset + slice.tasks.length;
}

async function copy(parts) {
  const text = parts.code.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without TLS a page from elsewhere has no clipboard: select the text, and copy the old way.
    getSelection().selectAllChildren(parts.code);
    document.execCommand("copy");
  }
  say(parts.copy, "Copied");
  say(byId("announcement"), `Copied: ${text}`);
  setTimeout(() => say(parts.copy, "Copy"), 1500);
}

// ---- the other sections --------------------------------------------------------------------------------------------

function renderGlance(all) {
  const live = [...LIVE].reduce((sum, state) => sum + (all.states[state] ?? 0), 0);
  const asking = Object.entries(all.next_actions).reduce((sum, [action, count]) => sum + (action === "none" ? 0 : count), 0);
  const states = [...LIVE].filter((state) => all.states[state]).map((state) => `${number.format(all.states[state])} ${state}`);
  const lag = all.health.lag_bytes ?? 0;
  pairs(byId("glance"), [
    ["live tasks", number.format(live), states.join(", ")],
    ["need something done", number.format(asking), "", asking ? "warn" : ""],
    ["past the deadline", number.format(all.past_deadline), "", all.past_deadline ? "bad" : ""],
    ["lost by one more preemption", number.format(all.cannot_absorb), "", all.cannot_absorb ? "bad" : ""],
    ["behind the ledgers", lag ? span(1000 * (all.health.lag_seconds ?? 0)) : "0 s", lag ? bytes(lag) : "all read", lag > 1 << 20 ? "warn" : ""],
  ]);
  say(byId("announcement"), `${counted(asking, "task needs", "tasks need")} something done, ${number.format(all.past_deadline)} past the deadline.`);
}

/** The lanes of the report, and those that are under an action without an attempt having been reported. */
function renderLanes(reported, actions) {
  const percent = (value) => `${number.format(100 * value)} %`;
  const names = new Set(reported.map((lane) => lane.lane));
  const lanes = [...reported, ...[...actions.keys()].filter((lane) => !names.has(lane)).map((lane) => ({ lane }))];
  byId("lanes-back").hidden = actions.size === 0;
  table("lanes-table", [
    ["Lane", (lane) => visible(lane.lane)],
    ["Under", (lane) => (actions.has(lane.lane) ? [visible(actions.get(lane.lane)), "warn"] : ["no action", "quiet"])],
    ["Completed", (lane) => orDash(lane.completed), "number"],
    ["Completion", (lane) => orDash(lane.completion_rate, percent), "number"],
    ["Rework", (lane) => orDash(lane.rework_multiplier, (value) => `× ${number.format(value)}`), "number"],
    ["Per job", (lane) => orDash(lane.s_per_completed_job, (value) => span(1000 * value)), "number"],
    ["p95 wait", (lane) => orDash(lane.p95_wait_s, (value) => span(1000 * value)), "number"],
    ["p95 run", (lane) => orDash(lane.p95_run_s, (value) => span(1000 * value)), "number"],
    ["Tokens per job", (lane) => orDash(lane.tokens_per_completed_job, (value) => number.format(Math.round(value))), "number"],
    ["Interventions per 100", (lane) => orDash(lane.interventions_per_100), "number"],
    ["Required slack", (lane) => orDash(lane.required_slack_s, (value) => span(1000 * value)), "number"],
  ], lanes);
}

function renderRuns(runs) {
  const late = (run) => known(run.projected_slack_seconds) && run.projected_slack_seconds < 0;
  // What is complete cannot be late any more, whatever is left of its time; where tasks are live it is not complete.
  const isOver = (run) => run.remaining === 0 && ![...LIVE].some((state) => run.tasks?.[state]);
  const handOver = (run) => {
    if (isOver(run)) return ["nothing left to do", "quiet"];
    if (!known(run.projected_slack_seconds)) return ["not known yet", "quiet"];
    const slack = span(1000 * run.projected_slack_seconds);
    return late(run) ? [`late by ${slack}`, "bad"] : [`${slack} to spare`, "good"];
  };
  const spent = (run) => (run.spend_committed_tokens ?? 0) + (run.spend_reserved_tokens ?? 0);
  table("runs-table", [
    ["Run", (run) => visible(run.run)],
    ["Hand-over", handOver],
    ["Grants", (run) => (run.stopped ? ["stopped", "warn"] : "yes")],
    ["Tasks", (run) => Object.entries(run.tasks ?? {}).filter(([, count]) => count).map(([state, count]) => `${number.format(count)} ${visible(state)}`).join(", ") || "–", "prose"],
    ["Budget", (run) => orDash(run.spend_budget_tokens), "number"],
    ["Committed", (run) => orDash(run.spend_committed_tokens), "number"],
    ["Reserved", (run) => orDash(run.spend_reserved_tokens), "number"],
    ["Of budget", (run) => (run.spend_budget_tokens > 0 ? `${number.format(Math.round((100 * spent(run)) / run.spend_budget_tokens))} %` : "–"), "number"],
    ["Burned", (run) => orDash(run.spend_burned_tokens), "number"],
    ["Shards accepted", (run) => orDash(run.shards_accepted), "number"],
    ["Leases open", (run) => orDash(run.leases_open), "number"],
    ["Leases overdue", (run) => (run.leases_overdue > 0 ? [number.format(run.leases_overdue), "warn"] : orDash(run.leases_overdue)), "number"],
  ], runs);
}

function renderReading(health) {
  const files = [...(health.files ?? [])].sort((one, other) => Number(Boolean(other.error)) - Number(Boolean(one.error)) || (other.lag_bytes ?? 0) - (one.lag_bytes ?? 0));
  const matched = health.files_matched ?? files.length;
  const shown = files.slice(0, MAX_FILES);
  const facts = [["files", number.format(matched) + (matched > shown.length ? ` (the ${shown.length} furthest behind are shown)` : "")]];
  if (known(health.lag_bytes)) facts.push(["behind by", `${bytes(health.lag_bytes)}, ${span(1000 * (health.lag_seconds ?? 0))}`]);
  if (known(health.lines)) facts.push(["lines read", number.format(health.lines)]);
  if (known(health.line_errors)) facts.push(["bad lines", number.format(health.line_errors)]);
  if (known(health.last_line_ms)) facts.push(["last line", `${span(Math.max(0, Date.now() - health.last_line_ms))} ago`]);
  if (health.mode) facts.push(["admission mode", visible(health.mode)]);
  pairs(byId("reading-facts"), facts);
  table("files-table", [
    ["File", (file) => visible(file.path)],
    ["State", (file) => (file.error ? [visible(file.error), "bad"] : file.lag_bytes > 0 ? ["behind", "warn"] : ["all read", "good"])],
    ["To read", (file) => orDash(file.lag_bytes, bytes), "number"],
  ], shown);
}

function render(all) {
  slice = { offset: all.tasks_offset, tasks: all.tasks, total: all.tasks_matching, ledger: all.health.ledger };
  say(byId("version"), visible(all.health.version ?? ""));
  const found = all.tasks_matching === all.tasks_total ? "" : `${number.format(all.tasks_matching)} of `;
  say(byId("tasks-count"), all.tasks_total ? `${found}${number.format(all.tasks_total)}, least slack first` : "");
  view.hidden = all.tasks_matching === 0;
  byId("tasks-none").hidden = all.tasks_matching > 0;
  say(byId("tasks-none"), all.tasks_total ? "No task matches." : "No task is in the ledger yet.");
  byId("tasks-ledger").hidden = all.health.ledger !== null || !all.tasks_total;
  renderGlance(all);
  renderLanes(all.lanes, new Map(Object.entries(all.health.lane_actions ?? {})));
  renderRuns(all.runs);
  renderReading(all.health);
  const complete = renderTasks();
  const ready = all.health.ready !== false;
  say(byId("freshness"), ready ? "Live" : "Catching up");
  toned(byId("freshness"), ready ? "good" : "warn");
  byId("trouble").hidden = true;
  return complete;
}

// ---- asking: while the page is seen, more patiently when the server is slow or away ---------------------------------

let timer = 0;
let failures = 0;
let asking = null;

async function ask() {
  clearTimeout(timer);
  // Nobody looks: the page asks again when it is seen.
  if (document.hidden) return;
  asking?.abort();
  const mine = (asking = new AbortController());
  const begun = performance.now();
  let pause = POLL_MS;
  try {
    const { first, last } = inView();
    const offset = Math.max(0, Math.min(first, last) - (SLICE >> 2));
    const query = new URLSearchParams({ offset: String(offset), limit: String(SLICE), match: byId("find").value.trim() });
    const response = await fetch(`api/v1/overview?${query}`, { signal: mine.signal, cache: "no-store" });
    if (!response.ok) throw new Error(`the exporter answered ${response.status}: ${(await response.text()).trim().slice(0, 300)}`);
    const complete = render(await response.json());
    failures = 0;
    pause = complete ? Math.max(POLL_MS, 5 * (performance.now() - begun)) : 0;
  } catch (error) {
    if (mine.signal.aborted) return;
    failures += 1;
    pause = Math.min(MAX_BACKOFF_MS, POLL_MS * 2 ** failures);
    say(byId("freshness"), "Not live");
    toned(byId("freshness"), "bad");
    say(byId("trouble"), `What you see is old: ${visible(error.message)}. Asking again in ${span(pause)}.`);
    byId("trouble").hidden = false;
  }
  if (asking === mine) timer = setTimeout(ask, pause);
}

let settling = 0;
function askSoon() {
  clearTimeout(settling);
  settling = setTimeout(ask, 120);
}

function rerender() {
  if (!renderTasks()) askSoon();
}

view.addEventListener("scroll", () => requestAnimationFrame(rerender), { passive: true });
// Also when the first answer makes the window as high as it may be: then there is room for more rows.
new ResizeObserver(() => requestAnimationFrame(rerender)).observe(view);
byId("find").addEventListener("input", () => {
  view.scrollTop = 0;
  askSoon();
});
document.addEventListener("visibilitychange", ask);
ask();
