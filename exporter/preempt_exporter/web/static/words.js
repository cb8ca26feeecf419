// The page's words: what a task's state, slack and action are called, and how a stranger's text is made safe to read.

export const LIVE = new Set(["queued", "running", "preempted"]);
// Maps, not objects: a ledger may well hold a state called "constructor".
export const STATE_TONE = new Map(Object.entries({ running: "good", queued: "quiet", preempted: "warn", rejected: "bad", drained: "bad", abandoned: "bad", complete: "quiet" }));
const ENDED = new Map(Object.entries({ rejected: "Rejected", drained: "Drained", abandoned: "Abandoned: silent past its deadline", complete: "Complete" }));

const ACTIONS = new Map(Object.entries({
  reject_enqueue: ["Admit no new task to the lane.", "lane"],
  drain_and_reject: ["Drain the lane and replay nothing.", "lane"],
  abandon_lane: ["Leave the lane until it is resumed.", "lane"],
  route_to_paid: ["Send new jobs to the paid lane.", "lane"],
  reclaim_lease: ["Declare it lost, to dispatch it again.", "lane run"],
  stop_run: ["Stop the run from granting more.", "run"],
  fix_idempotency: ["For a person: make the work idempotent.", ""],
  inspect_ledger: ["For a person: inspect the ledger.", ""],
  restart_exporter: ["For a person: restart the exporter.", ""],
}));
const REASONS = new Map(Object.entries({
  slack_zero: "no slack was left",
  queue_age: "it had waited too long",
  preempt_budget: "it was preempted too often",
  restart_tokens: "restart tokens had eaten its budget",
  restart_cannot_finish: "a restart could not finish in time",
  drain_mode: "the lane was draining",
}));

export const number = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

/** Text whose control, direction and invisible characters are shown as escapes instead of obeyed. */
export function visible(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

/** One argument for a POSIX shell; what could disturb a terminal is escaped ($'…', which bash, zsh and ksh read). */
function shellWord(text) {
  if (/^[A-Za-z0-9_@%+:,./][A-Za-z0-9_@%+=:,./-]*$/.test(text)) return text;
  if (!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  const escaped = Array.from(text, (character) => {
    if (/[\\']/.test(character)) return `\\${character}`;
    if (!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(character)) return character;
    return Array.from(new TextEncoder().encode(character), (byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  });
  return `$'${escaped.join("")}'`;
}

/** What carries out the task's next action on `ledger`; without one the shell has to know it, by LEDGER_PATH. */
export function command(task, ledger) {
  const [, targets] = ACTIONS.get(task.next_action) ?? ["", ""];
  const words = ["preempt-exporter act", shellWord(task.next_action)];
  if (targets && ledger) words.push(`--ledger=${shellWord(ledger)}`);
  for (const target of ["lane", "run"]) {
    // The = keeps a name that begins with a dash from being read as a flag.
    if (targets.includes(target) && task[target]) words.push(`--${target}=${shellWord(task[target])}`);
  }
  return words.join(" ");
}

export function span(ms) {
  const seconds = Math.floor(Math.abs(ms) / 1000);
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  const two = (value) => String(value).padStart(2, "0");
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${two(minutes)} m`;
  if (minutes) return `${minutes} m ${two(seconds % 60)} s`;
  return `${seconds} s`;
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  return `${number.format(Math.round((count / 1024 ** power) * 10) / 10)} ${units[power]}`;
}

export const known = (value) => value !== null && value !== undefined;
export const orDash = (value, format = number.format) => (known(value) ? format(value) : "–");
export const counted = (count, one, many) => `${number.format(count)} ${count === 1 ? one : many}`;

/** How a task stands: `none` unknown, `bad` late or lost by one more preemption, `warn` past half its deadline. */
export function tone(task) {
  if (!known(task.deadline_slack_ms)) return "none";
  if (task.deadline_slack_ms <= 0) return "bad";
  if (LIVE.has(task.state) && task.fits_one_more_preemption === false) return "bad";
  return task.deadline_ms && task.deadline_slack_ms < task.deadline_ms / 2 ? "warn" : "good";
}

export function slackWords(task) {
  const slack = task.deadline_slack_ms;
  if (!known(slack)) return ENDED.has(task.state) ? "no longer waits" : "no deadline known";
  return slack < 0 ? `missed by ${span(slack)}` : `${span(slack)} left`;
}

export function doWords(task) {
  if (task.next_action && task.next_action !== "none") return ACTIONS.get(task.next_action)?.[0] ?? `Do: ${visible(task.next_action)}.`;
  const ended = ENDED.get(task.state);
  if (!ended) return "Nothing: hold.";
  return task.reason ? `${ended}: ${REASONS.get(task.reason) ?? visible(task.reason)}.` : `${ended}.`;
}
