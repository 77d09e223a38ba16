//! A chart as SVG: series over a time axis, stacked or as lines.
//!
//! Pure. The drawing is stretched to its place's width, so it has no text; labels are HTML around it. Callers:
//! [`super::charts`] makes charts, [`super::view`] places them.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::words;

/// The height of the drawing, in its own units; it is as wide as it has slots.
const HEIGHT: f64 = 100.0;

/// How it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Areas on top of each other: for values that add up.
    Stack,
    /// Lines: for values that do not.
    Lines,
}

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    PerSecond,
    PerMinute,
    /// 0 to 1.
    Share,
    /// Microseconds; the axis is logarithmic, from 10 on.
    Micros,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// A value in words.
    pub(super) fn words(self, value: f64) -> String {
        match self {
            Self::PerSecond => format!("{}/s", words::decimal(value)),
            Self::PerMinute => format!("{}/min", words::decimal(value)),
            Self::Share => words::share(value),
            Self::Micros => words::micros(value),
            Self::Seconds => words::seconds(value.round() as u64),
        }
    }

    /// The end of an axis for values up to `most`.
    fn top(self, most: f64) -> f64 {
        match self {
            Self::Share => 1.0,
            Self::Micros => 10_f64.powf(most.max(1000.0).log10().ceil()),
            Self::PerSecond | Self::PerMinute | Self::Seconds => {
                let decade = 10_f64.powf(most.max(1.0).log10().floor());
                let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
                steps.into_iter().find(|step| *step >= most).unwrap_or(most)
            }
        }
    }

    /// How far up a value is, 0 to 1.
    fn height(self, value: f64, top: f64) -> f64 {
        let share = match self {
            Self::Micros => (value.max(10.0).log10() - 1.0) / (top.log10() - 1.0),
            _ => value / top,
        };
        share.clamp(0.0, 1.0)
    }

    /// The value half way up.
    fn middle(self, top: f64) -> f64 {
        if self == Self::Micros { 10_f64.powf(f64::midpoint(1.0, top.log10())) } else { top / 2.0 }
    }
}

/// One series.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// In the legend.
    pub name: &'static str,
    /// The number of a class in the stylesheet.
    pub hue: u8,
    /// One for each slot, the oldest first; `None`: not known.
    pub values: Vec<Option<f64>>,
}

/// A line that should not be crossed.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub value: f64,
    pub name: &'static str,
}

/// One chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// Unique on the page.
    pub id: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub kind: Kind,
    /// The series; all have equally many slots.
    pub series: Vec<Series>,
    pub limit: Option<Limit>,
    /// Shown without data.
    pub empty: &'static str,
}

impl Chart {
    /// The chart with its labels. `since`: the label of the left end of the axis.
    pub(super) fn render(&self, since: &str) -> Markup {
        let known = self.series.iter().any(|series| series.values.iter().any(Option::is_some));
        html! {
            figure class="chart" id=(self.id) {
                figcaption { (self.title) }
                @if known { (self.plot(since)) } @else { p class="empty" { (self.empty) } }
            }
        }
    }

    fn plot(&self, since: &str) -> Markup {
        let slots = self.series.iter().map(|series| series.values.len()).max().unwrap_or_default();
        let top = self.top();
        let (title, summary) = (format!("{}-title", self.id), format!("{}-summary", self.id));
        html! {
            div class="plot" {
                svg viewBox={ "0 0 " (slots) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                    aria-labelledby={ (title) " " (summary) } {
                    title id=(title) { (self.title) }
                    desc id=(summary) { (self.summary(since)) }
                    path class="grid" d={ "M0 0H" (slots) "M0 " (HEIGHT / 2.0) "H" (slots) "M0 " (HEIGHT) "H" (slots) } {}
                    @for (class, path) in self.paths(top) { path class=(class) d=(path) {} }
                    @if let Some(limit) = &self.limit {
                        @let at = self.y(limit.value, top);
                        path class="limit" d={ "M0 " (number(at)) "H" (slots) } {}
                    }
                }
                span class="tick top" aria-hidden="true" { (self.unit.words(top)) }
                span class="tick middle" aria-hidden="true" { (self.unit.words(self.unit.middle(top))) }
            }
            p class="axis" aria-hidden="true" { span { (since) } span { "now" } }
            ul class="legend" {
                @for series in &self.series {
                    li {
                        span class={ "key hue" (series.hue) } {}
                        (series.name) " "
                        b { @match series.values.last().copied().flatten() {
                            Some(value) => (self.unit.words(value)),
                            None => "–",
                        } }
                    }
                }
                @if let Some(limit) = &self.limit {
                    li { span class="key of-limit" {} (limit.name) " " b { (self.unit.words(limit.value)) } }
                }
            }
        }
    }

    /// The chart in words, for screen readers.
    fn summary(&self, since: &str) -> String {
        let mut text = format!("From {since} to now.");
        for series in &self.series {
            let known = || series.values.iter().flatten().copied();
            let most = known().fold(f64::NEG_INFINITY, f64::max);
            let least = known().fold(f64::INFINITY, f64::min);
            // Writing to a String cannot fail.
            let _ = match series.values.iter().rev().find_map(|value| *value) {
                None => write!(text, " {}: nothing known.", series.name),
                Some(last) => write!(
                    text,
                    " {}: last {}, least {}, most {}.",
                    series.name,
                    self.unit.words(last),
                    self.unit.words(least),
                    self.unit.words(most)
                ),
            };
        }
        text
    }

    fn top(&self) -> f64 {
        let sums = self.levels();
        let most = sums.iter().flatten().flatten().copied().fold(0.0, f64::max);
        self.unit.top(most.max(self.limit.as_ref().map_or(0.0, |limit| limit.value)))
    }

    /// The height of each series: in a stack, its values on top of the series before.
    fn levels(&self) -> Vec<Vec<Option<f64>>> {
        let mut levels: Vec<Vec<Option<f64>>> = Vec::with_capacity(self.series.len());
        for series in &self.series {
            let on = levels.last().filter(|_| self.kind == Kind::Stack);
            let level = series.values.iter().enumerate().map(|(at, value)| {
                let below = on.and_then(|on| on.get(at).copied().flatten());
                value.map(|value| value + below.unwrap_or_default())
            });
            let level = level.collect();
            levels.push(level);
        }
        levels
    }

    fn y(&self, value: f64, top: f64) -> f64 {
        HEIGHT * (1.0 - self.unit.height(value, top))
    }

    /// The class and the path of each series.
    fn paths(&self, top: f64) -> Vec<(String, String)> {
        let levels = self.levels();
        let mut paths = Vec::with_capacity(self.series.len());
        for (at, series) in self.series.iter().enumerate() {
            let mut path = String::new();
            for run in runs(&levels[at]) {
                let up = |slot: usize, level: &[Option<f64>]| self.y(level[slot].unwrap_or_default(), top);
                steps(&mut path, run.clone().map(|slot| (slot, up(slot, &levels[at]))), true);
                if self.kind == Kind::Stack {
                    let floor = |slot| at.checked_sub(1).map_or(HEIGHT, |below| up(slot, &levels[below]));
                    steps(&mut path, run.rev().map(|slot| (slot, floor(slot))), false);
                    path.push('Z');
                }
            }
            if !path.is_empty() {
                let kind = if self.kind == Kind::Stack { "area" } else { "line" };
                paths.push((format!("{kind} hue{}", series.hue), path));
            }
        }
        paths
    }
}

/// The ranges of slots whose values are known.
fn runs(values: &[Option<f64>]) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for at in (0..values.len()).filter(|at| values[*at].is_some()) {
        match runs.last_mut().filter(|run| run.end == at) {
            Some(run) => run.end += 1,
            None => runs.push(at..at + 1),
        }
    }
    runs
}

/// A line of level steps: to the right from its first slot, or back to the left from the path's end.
fn steps(path: &mut String, levels: impl Iterator<Item = (usize, f64)>, forward: bool) {
    let mut last: Option<(usize, String)> = None;
    let edge = |slot: usize| if forward { slot + 1 } else { slot };
    for (slot, level) in levels {
        let level = number(level);
        // Writing to a String cannot fail.
        let _ = match &last {
            Some((_, same)) if *same == level => Ok(()),
            Some((before, _)) => write!(path, "H{}V{level}", edge(*before)),
            None if forward => write!(path, "M{slot} {level}"),
            None => write!(path, "V{level}"),
        };
        last = Some((slot, level));
    }
    if let Some((slot, _)) = last {
        let _ = write!(path, "H{}", edge(slot));
    }
}

/// A coordinate with at most one decimal.
fn number(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    format!("{tenths}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(kind: Kind, unit: Unit, series: &[&[Option<f64>]]) -> Chart {
        let series = series.iter().enumerate().map(|(at, values)| Series {
            name: ["one", "two"][at],
            hue: at as u8 + 1,
            values: values.to_vec(),
        });
        let (id, title, empty) = ("id", "A title", "Nothing yet.");
        Chart { id, title, unit, kind, series: series.collect(), limit: None, empty }
    }

    #[test]
    fn areas_lie_on_each_other_and_gaps_stay_open() {
        let known = |values: [f64; 3]| values.map(Some);
        let chart = chart(Kind::Stack, Unit::PerSecond, &[&known([1.0, 1.0, 0.0]), &[Some(1.0), None, Some(2.0)]]);
        assert!((chart.top() - 2.0).abs() < 1e-9);
        let paths = chart.paths(chart.top());
        assert_eq!(paths[0], ("area hue1".to_owned(), "M0 50H2V100H3V100H0Z".to_owned()));
        assert_eq!(paths[1].1, "M0 0H1V50H0ZM2 0H3V100H2Z");
    }

    #[test]
    fn lines_are_steps_and_a_single_value_is_seen() {
        let chart = chart(Kind::Lines, Unit::Share, &[&[Some(0.5), Some(1.0), None, Some(0.0)]]);
        assert_eq!(chart.paths(1.0)[0].1, "M0 50H1V0H2M3 100H4");
    }

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (unit, most, top) in [
            (Unit::PerSecond, 0.0, 1.0),
            (Unit::PerSecond, 3.0, 5.0),
            (Unit::PerMinute, 51.0, 100.0),
            (Unit::Seconds, 900.0, 1000.0),
            (Unit::Share, 0.2, 1.0),
            (Unit::Micros, 40.0, 1000.0),
            (Unit::Micros, 2_300_000.0, 10_000_000.0),
        ] {
            assert!((unit.top(most) - top).abs() < 1e-6, "{unit:?} {most}: {}", unit.top(most));
        }
        let middle = Unit::Micros.middle(1000.0);
        assert!((Unit::Micros.height(middle, 1000.0) - 0.5).abs() < 1e-9 && (middle - 100.0).abs() < 1e-6);
    }

    #[test]
    fn a_drawing_is_described_in_words() {
        let drawn = chart(Kind::Lines, Unit::Micros, &[&[Some(80.0), Some(2000.0)]]).render("15 min ago").into_string();
        assert!(drawn.contains("From 15 min ago to now. one: last 2.0 ms, least 80 µs, most 2.0 ms."), "{drawn}");
        assert!(drawn.contains("role=\"img\"") && drawn.contains("<title"), "{drawn}");
        assert!(!drawn.contains("style="), "the policy forbids it");
        let empty = chart(Kind::Lines, Unit::Share, &[&[None, None]]).render("x").into_string();
        assert!(empty.contains("Nothing yet.") && !empty.contains("<svg"), "{empty}");
    }
}
