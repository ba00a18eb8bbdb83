//! The results of a run, as they are saved in a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::header::Header;
use super::range::Range;
use super::row::{Metric, Row};
use super::verdict::GoalResult;

/// The second edition of the file format. Results of the first edition have no such number.
pub(crate) const FORMAT: u32 = 2;

/// A run: its header, and its rows so far.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) format: u32,
    pub(crate) header: Header,
    /// False until the last row has ended.
    pub(crate) complete: bool,
    /// The fastest calibration spin of the run, in nanoseconds.
    pub(crate) least_spin: Option<f64>,
    pub(crate) rows: Vec<RowResult>,
}

/// A row with all its rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RowResult {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) cores: usize,
    pub(crate) metrics: Vec<MetricName>,
    /// The number of rounds that were discarded because something disturbed them, and run again.
    pub(crate) repeated: usize,
    /// The number of disturbed rounds that count nevertheless, because the row had been repeated
    /// often enough.
    pub(crate) kept_disturbed: usize,
    /// The number of rounds that count and ran on slower cores as a whole. That does not change how
    /// contenders compare, but it changes their times.
    #[serde(default)]
    pub(crate) slow: usize,
    /// How often each reason for a disturbed round was found.
    pub(crate) disturbances: BTreeMap<String, usize>,
    pub(crate) goals: Vec<GoalResult>,
    pub(crate) contenders: Vec<ContenderResult>,
}

/// A metric's name and unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MetricName {
    pub(crate) name: String,
    pub(crate) unit: String,
}

impl From<&Metric> for MetricName {
    fn from(metric: &Metric) -> MetricName {
        MetricName { name: metric.name.into(), unit: metric.unit.name().into() }
    }
}

/// Everything one contender measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ContenderResult {
    pub(crate) name: String,
    pub(crate) note: Option<String>,
    /// The most recent reason why it gave no sample.
    pub(crate) failure: Option<String>,
    /// For each metric: the spread of its values, and the spread of its cost as a multiple of
    /// ecru's in the same round.
    pub(crate) summary: Vec<Option<Summary>>,
    /// One entry for each round, with a value for each metric. The entry is `None` if there was no
    /// sample.
    pub(crate) rounds: Vec<Option<Vec<f64>>>,
}

/// One metric of one contender over all rounds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) value: Range,
    pub(crate) times_ecru: Option<Range>,
}

impl ContenderResult {
    /// Creates a contender before its first round.
    pub(crate) fn new(name: &str, note: Option<&str>) -> ContenderResult {
        ContenderResult {
            name: name.into(),
            note: note.map(str::to_owned),
            failure: None,
            summary: Vec::new(),
            rounds: Vec::new(),
        }
    }

    /// Returns the spread of one metric.
    pub(crate) fn spread(&self, metric: usize) -> Option<Range> {
        Range::of(self.rounds.iter().flatten().map(|sample| sample[metric]).collect())
    }
}

impl RowResult {
    /// Creates a row before its first round.
    pub(crate) fn new(row: &Row) -> RowResult {
        let contender = |contender: &super::row::Contender| {
            ContenderResult::new(contender.name, contender.note)
        };
        RowResult {
            name: row.name(),
            title: row.title.clone(),
            note: row.note.into(),
            cores: row.cores,
            metrics: row.metrics.iter().map(MetricName::from).collect(),
            repeated: 0,
            kept_disturbed: 0,
            slow: 0,
            disturbances: BTreeMap::new(),
            goals: Vec::new(),
            contenders: row.contenders.iter().map(contender).collect(),
        }
    }

    /// Returns the contender of that name.
    pub(crate) fn contender(&self, name: &str) -> Option<&ContenderResult> {
        self.contenders.iter().find(|contender| contender.name == name)
    }

    /// Returns the index of a metric in every sample.
    pub(crate) fn metric(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
    }

    /// Returns the spread of one contender's value divided by another's, over the rounds in which
    /// both measured. A count may be zero. A round in which the divisor is zero has no ratio.
    pub(crate) fn ratio(&self, above: (&str, usize), below: (&str, usize)) -> Option<Range> {
        let (above_rounds, below_rounds) =
            (&self.contender(above.0)?.rounds, &self.contender(below.0)?.rounds);
        let rounds = above_rounds.iter().zip(below_rounds);
        let ratios = rounds
            .filter_map(|(one, other)| Some(one.as_ref()?[above.1] / other.as_ref()?[below.1]));
        // The file of results can only contain finite numbers.
        Range::of(ratios.filter(|ratio| ratio.is_finite()).collect())
    }

    /// Computes each contender's summary from its rounds.
    pub(crate) fn summarise(&mut self, own: &str) {
        let metrics = 0..self.metrics.len();
        let summaries = self.contenders.iter().map(|contender| {
            let summary = |metric| {
                let value = contender.spread(metric)?;
                let times_ecru = self.ratio((&contender.name, metric), (own, metric));
                Some(Summary { value, times_ecru })
            };
            metrics.clone().map(summary).collect::<Vec<_>>()
        });
        let summaries: Vec<_> = summaries.collect();
        for (contender, summary) in self.contenders.iter_mut().zip(summaries) {
            contender.summary = summary;
        }
    }
}
