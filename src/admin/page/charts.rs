//! The charts of the page, and how samples become their series.
//!
//! Pure. Callers: [`super::gather`].

use std::time::Duration;

use crate::config::Use;
use crate::telemetry::Group;
use crate::telemetry::history::{Sample, Span};
use crate::upstream::window::Class;

use super::chart::{Chart, Kind, Limit, Series, Unit};

/// How many samples are drawn as one: more slots cannot be told apart.
const TOGETHER_OF_HOURS: usize = 5;

/// The charts' inputs beside the samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    /// How this process is used.
    pub usage: Use,
    /// Requests to the origin in a minute; `None`: unlimited.
    pub budget: Option<usize>,
    /// The age in seconds at which a server is unhealthy; `None`: it has none.
    pub oldest: Option<u64>,
}

const NONE_YET: &str =
    "No sample yet: the server takes one every ten seconds, and one every minute for the view of 12 hours.";

/// All charts of a span.
pub(super) fn charts(samples: &[Option<Sample>], span: Span, scene: Scene) -> Vec<Chart> {
    let together = if span == Span::Hours { TOGETHER_OF_HOURS } else { 1 };
    let drawn = Drawn::new(samples, together, span.step());
    let mut charts = vec![requests(&drawn), latency(&drawn), not_modified(&drawn), refused(&drawn)];
    if scene.usage.has_origin() {
        charts.push(spent(&drawn, scene.budget));
    }
    if scene.usage != Use::Shield {
        charts.push(age(&drawn, scene.oldest));
    }
    if scene.usage == Use::Mirror {
        charts.extend([progress(&drawn), parity(&drawn)]);
    }
    charts
}

/// The label of the axis' left end.
pub(super) const fn since(span: Span) -> &'static str {
    match span {
        Span::Minutes => "15 min ago",
        Span::Hours => "12 h ago",
    }
}

struct Drawn {
    slots: Vec<Option<Sample>>,
    seconds: f64,
}

impl Drawn {
    fn new(samples: &[Option<Sample>], together: usize, step: Duration) -> Self {
        let slots = samples
            .chunks(together)
            .map(|chunk| chunk.iter().flatten().copied().reduce(|before, next| before.and(&next)));
        Self { slots: slots.collect(), seconds: step.as_secs_f64() * together as f64 }
    }

    fn series(&self, name: &'static str, hue: u8, value: impl Fn(&Sample) -> Option<f64>) -> Series {
        Series { name, hue, values: self.slots.iter().map(|slot| slot.as_ref().and_then(&value)).collect() }
    }

    fn per_second(&self, count: u32) -> f64 {
        f64::from(count) / self.seconds
    }

    /// The count in the minute before the end of each slot, as budgets and limits count.
    fn in_a_minute(&self, name: &'static str, hue: u8, count: impl Fn(&Sample) -> u32) -> Series {
        let slots = (60.0 / self.seconds).round().max(1.0) as usize;
        let scale = 60.0 / (self.seconds * slots as f64);
        let values = (0..self.slots.len()).map(|at| {
            self.slots[at]?;
            let minute = self.slots[(at + 1).saturating_sub(slots)..=at].iter().flatten();
            Some(minute.map(|sample| f64::from(count(sample))).sum::<f64>() * scale)
        });
        Series { name, hue, values: values.collect() }
    }
}

fn requests(drawn: &Drawn) -> Chart {
    let names = [
        (Group::Fresh, "from the copy", 1),
        (Group::Stale, "stale", 2),
        (Group::Origin, "origin asked", 3),
        (Group::Refused, "refused", 4),
        (Group::Error, "errors", 5),
        (Group::Other, "other", 6),
    ];
    let series = names.map(|(group, name, hue)| {
        drawn.series(name, hue, |sample| Some(drawn.per_second(sample.answers[group as usize])))
    });
    Chart {
        id: "requests",
        title: "Requests by outcome",
        unit: Unit::PerSecond,
        kind: Kind::Stack,
        series: series.into(),
        limit: None,
        empty: NONE_YET,
    }
}

fn latency(drawn: &Drawn) -> Chart {
    Chart {
        id: "latency",
        title: "Time to answer",
        unit: Unit::Micros,
        kind: Kind::Lines,
        series: vec![
            drawn.series("99 of 100 within", 3, |sample| sample.p99.map(f64::from)),
            drawn.series("half within", 1, |sample| sample.p50.map(f64::from)),
        ],
        limit: None,
        empty: "No requests yet.",
    }
}

fn not_modified(drawn: &Drawn) -> Chart {
    let share = |sample: &Sample| {
        let all = sample.answered();
        (all > 0).then(|| f64::from(sample.not_modified) / f64::from(all))
    };
    Chart {
        id: "not-modified",
        title: "Answered with 304",
        unit: Unit::Share,
        kind: Kind::Lines,
        series: vec![drawn.series("of all answers", 1, share)],
        limit: None,
        empty: "No requests yet.",
    }
}

fn refused(drawn: &Drawn) -> Chart {
    let refused = |sample: &Sample| sample.answers[Group::Refused as usize];
    Chart {
        id: "refused",
        title: "Refused by the rate limit (429)",
        unit: Unit::PerMinute,
        kind: Kind::Stack,
        series: vec![drawn.in_a_minute("refused", 4, refused)],
        limit: None,
        empty: NONE_YET,
    }
}

/// The purpose of a class of requests.
pub(super) const fn purpose(class: Class) -> &'static str {
    match class {
        Class::Refresh => "refresh",
        Class::Client => "clients",
        Class::Crawl => "pages",
        Class::Details => "details",
        Class::Background => "background",
    }
}

fn spent(drawn: &Drawn, budget: Option<usize>) -> Chart {
    let hues = [1, 3, 2, 4, 6];
    let series = Class::ALL.into_iter().zip(hues);
    let series =
        series.map(|(class, hue)| drawn.in_a_minute(purpose(class), hue, |sample| sample.sent[class as usize]));
    Chart {
        id: "spent",
        title: "Requests to the origin, by purpose",
        unit: Unit::PerMinute,
        kind: Kind::Stack,
        series: series.collect(),
        limit: budget.map(|budget| Limit { value: budget as f64, name: "budget" }),
        empty: NONE_YET,
    }
}

fn age(drawn: &Drawn, oldest: Option<u64>) -> Chart {
    Chart {
        id: "age",
        title: "Age of the data",
        unit: Unit::Seconds,
        kind: Kind::Lines,
        series: vec![drawn.series("since it was confirmed", 1, |sample| sample.age_seconds.map(f64::from))],
        limit: oldest.map(|oldest| Limit { value: oldest as f64, name: "unhealthy above" }),
        empty: "No data yet.",
    }
}

fn progress(drawn: &Drawn) -> Chart {
    Chart {
        id: "progress",
        title: "Progress of the copy",
        unit: Unit::Share,
        kind: Kind::Lines,
        series: vec![
            drawn.series("details", 1, |sample| sample.details.map(f64::from)),
            drawn.series("pages of a pass", 3, |sample| sample.pages.map(f64::from)),
        ],
        limit: None,
        empty: "No pass has begun yet.",
    }
}

fn parity(drawn: &Drawn) -> Chart {
    Chart {
        id: "parity-chart",
        title: "Equal to the origin",
        unit: Unit::Share,
        kind: Kind::Lines,
        series: vec![drawn.series("of the last 200 compared", 1, |sample| sample.parity.map(f64::from))],
        limit: None,
        empty: "Nothing was compared yet.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENE: Scene = Scene { usage: Use::Mirror, budget: Some(60), oldest: Some(900) };

    fn ids(usage: Use) -> Vec<&'static str> {
        charts(&[None], Span::Minutes, Scene { usage, ..SCENE }).iter().map(|chart| chart.id).collect()
    }

    #[test]
    fn each_use_has_the_charts_that_make_sense_for_it() {
        assert_eq!(ids(Use::Mirror).len(), 8);
        assert_eq!(ids(Use::Shield), ["requests", "latency", "not-modified", "refused", "spent"]);
        assert_eq!(ids(Use::Offline), ["requests", "latency", "not-modified", "refused", "age"]);
    }

    #[test]
    fn counts_become_rates_and_an_hour_is_drawn_in_twelve_slots() {
        let sample =
            Sample { answers: [100, 0, 0, 50, 0, 0], not_modified: 30, sent: [0, 10, 0, 0, 0], ..Sample::default() };
        let last =
            |charts: &[Chart], at: usize, series: usize| charts[at].series[series].values.last().copied().flatten();
        let minutes = charts(&[None, Some(sample)], Span::Minutes, SCENE);
        assert_eq!(minutes[0].series[0].values, [None, Some(10.0)]);
        assert_eq!(last(&minutes, 2, 0), Some(0.2));
        assert_eq!(last(&minutes, 3, 0), Some(50.0));
        let whole = charts(&[Some(sample); 90], Span::Minutes, SCENE);
        assert_eq!(last(&whole, 4, 1), Some(60.0), "the last six of ten seconds each");
        let hours = charts(&[Some(sample); 60], Span::Hours, SCENE);
        assert_eq!(hours[0].series[0].values.len(), 12);
        assert_eq!(last(&hours, 3, 0), Some(50.0));
    }

    #[test]
    fn what_is_drawn_is_bounded() {
        let busy = |n: u32| Sample {
            answers: [n * 7, n * 3 % 11, n % 5, n * 13 % 7, n % 3, n % 2],
            not_modified: n % 7,
            sent: [n % 3, n % 5, n % 7, n % 11, n % 13],
            p50: Some(n * 17 % 1000 + 1),
            p99: Some(n * 7919 % 1_000_000 + 1),
            age_seconds: Some(n % 300),
            pages: Some((n % 10) as f32 / 10.0),
            details: Some((n % 100) as f32 / 100.0),
            parity: Some((n % 50) as f32 / 50.0),
        };
        for span in [Span::Minutes, Span::Hours] {
            let samples: Vec<_> = (0..span.samples() as u32).map(|n| Some(busy(n))).collect();
            let drawn: usize =
                charts(&samples, span, SCENE).iter().map(|chart| chart.render(since(span)).into_string().len()).sum();
            assert!(drawn < 64 << 10, "{span:?}: {drawn} bytes");
        }
    }
}
