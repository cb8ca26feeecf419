"""The few kinds of panel that the dashboard is made of, and the label matchers of its queries.

No query rescales its series: a metric in milliseconds is shown in milliseconds, so that a threshold stands in the
metric's own unit and Grafana does the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")

EXPORTER = 'cluster=~"$cluster",job=~"$job",instance=~"$instance"'
"""Matchers of every scraped series."""
LANE = f'{EXPORTER},lane=~"$lane"'
RUN = f'{EXPORTER},run=~"$run"'
TASK = f'{EXPORTER},lane=~"$lane",run=~"$run",task_id=~"$task_id"'
TASK_LABELS = "cluster, job, instance, lane, run, task_id"

GREEN, ORANGE, RED = "green", "orange", "red"
FULL_WIDTH = 24
_NO_COLUMNS = ("Time", "__name__", "cluster", "job", "instance")


@dataclass(frozen=True)
class Line:
    """A query and how its series are called."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Column:
    """A query of a table, the heading of its value, and the unit and colours of that."""

    expression: str
    heading: str
    unit: str
    steps: tuple[tuple[float | None, str], ...] = ()


def threshold(name: str) -> Line:
    """What an exporter says is in force: drawn beside the values, so that a changed policy moves the line."""
    return Line(f'max(preempt_threshold{{{EXPORTER},name="{name}"}})', f"in force: {name}")


def lines(
    title: str,
    description: str,
    unit: str,
    queries: tuple[Line, ...],
    *,
    width: int = 12,
    steps: tuple[tuple[float | None, str], ...] = (),
    stacked: bool = False,
) -> timeseries.Panel:
    """Values over time. `steps` are in `unit`; they are drawn as dashed lines where there are any."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .height(8)
        .span(width)
        .fill_opacity(30 if stacked else 5)
        .show_points(common_model.VisibilityMode.NEVER)
        .legend(common.VizLegendOptions().show_legend(True).placement(common_model.LegendPlacement.BOTTOM))
        .tooltip(common.VizTooltipOptions().mode(common_model.TooltipDisplayMode.MULTI))
        .thresholds(_steps(steps))
    )
    if steps:
        dashed = common.GraphThresholdsStyleConfig().mode(common_model.GraphTresholdsStyleMode.DASHED)
        panel.thresholds_style(dashed)
    if stacked:
        panel.stacking(common.StackingConfig().mode(common_model.StackingMode.NORMAL))
    for ref_id, line in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(
            prometheus.Dataquery().ref_id(ref_id).expr(line.expression).legend_format(line.legend).range()
        )
    return panel


def number(
    title: str,
    description: str,
    unit: str,
    query: Line,
    *,
    width: int = 4,
    steps: tuple[tuple[float | None, str], ...] = (),
    words: Mapping[str, tuple[str, str]] | None = None,
) -> stat.Panel:
    """The newest value. `words` maps values to a text and a colour."""
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .height(5)
        .span(width)
        .graph_mode(common_model.BigValueGraphMode.NONE)
        .color_mode(common_model.BigValueColorMode.BACKGROUND if steps else common_model.BigValueColorMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_steps(steps))
        .with_target(prometheus.Dataquery().ref_id("A").expr(query.expression).legend_format(query.legend).instant())
    )
    if words:
        panel.mappings([value_words(words)])
    return panel


def rows(
    title: str,
    description: str,
    columns: tuple[Column, ...],
    *,
    shown: Mapping[str, str],
    sorted_by: str,
    height: int = 10,
) -> table.Panel:
    """A table with a row per set of labels: those of `shown`, with their headings, in order; ascending by a heading."""
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit("short")
        .height(height)
        .span(FULL_WIDTH)
        .thresholds(_steps(()))
        .sort_by([common.TableSortByFieldState().display_name(sorted_by).desc(False)])
    )
    value_fields = {f"Value #{ref_id}" if len(columns) > 1 else "Value": at for at, ref_id in enumerate("ABCDEFGH")}
    headings = dict(shown)
    for (field, at), column in zip(value_fields.items(), columns, strict=False):
        headings[field] = column.heading
        panel.with_target(
            prometheus.Dataquery()
            .ref_id("ABCDEFGH"[at])
            .expr(column.expression)
            .format(PromQueryFormat.TABLE)
            .instant()
        )
        properties = [model.DynamicConfigValue(id_val="unit", value=column.unit)]
        if column.steps:
            properties += [
                model.DynamicConfigValue(id_val="thresholds", value=_steps(column.steps).build()),
                model.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
            ]
        panel.override_by_name(column.heading, properties)
    if len(columns) > 1:
        panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    organize = {
        "excludeByName": {name: True for name in _NO_COLUMNS if name not in shown},
        "indexByName": {name: at for at, name in enumerate(headings)},
        "renameByName": headings,
    }
    return panel.with_transformation(model.DataTransformerConfig(id_val="organize", options=organize))


def value_words(words: Mapping[str, tuple[str, str]]) -> model.ValueMap:
    """Values shown as a text in a colour."""
    return model.ValueMap(
        options={
            value: model.ValueMappingResult(text=text, color=color, index=at)
            for at, (value, (text, color)) in enumerate(words.items())
        }
    )


def _steps(steps: tuple[tuple[float | None, str], ...]) -> dashboard.ThresholdsConfig:
    known = steps or ((None, GREEN),)
    return (
        dashboard.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=color) for value, color in known])
    )
