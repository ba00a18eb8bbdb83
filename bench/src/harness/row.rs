//! What a row is made of.

/// The unit of a metric; it decides how the number is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    Bytes,
    Seconds,
    /// Of a hundred.
    Percent,
    /// How many.
    Count,
    /// How many times what there was at the start.
    TimesTheStart,
    /// How many times the least that is possible.
    TimesTheLeast,
}

impl Unit {
    /// The name in tables and in the JSON file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "bytes",
            Unit::Seconds => "s",
            Unit::Percent => "%",
            Unit::Count => "",
            Unit::TimesTheStart => "x the start",
            Unit::TimesTheLeast => "x the least",
        }
    }
}

/// One number that every contender of a row gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
}

impl Metric {
    /// Time for one operation, the metric of most rows.
    pub(crate) const TIME: Metric = Metric { name: "time", unit: Unit::Nanoseconds };
}

/// What one contender measured in one round: metric and value.
pub(crate) type Sample = Vec<(&'static str, f64)>;

/// How a contender measures.
pub(crate) enum Measure {
    /// By calling this in the child process.
    Here(Box<dyn Fn() -> Sample>),
    /// By turning the child process into the Go program, with these arguments and this many processors.
    Go { arguments: Vec<String>, processors: usize },
    /// By turning it into the Java program, with these arguments.
    Jdk { arguments: Vec<String> },
}

/// One library that does a row's work.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) measure: Measure,
    /// What a reader has to know to compare it fairly, such as a limit on its size.
    pub(crate) note: Option<&'static str>,
}

impl Contender {
    /// A contender with the single metric [`Metric::TIME`].
    pub(crate) fn timed(name: &'static str, measure: impl Fn() -> f64 + 'static) -> Self {
        Self::sampled(name, move || vec![(Metric::TIME.name, measure())])
    }

    /// A contender that gives a whole sample.
    pub(crate) fn sampled(name: &'static str, measure: impl Fn() -> Sample + 'static) -> Self {
        Self { name, measure: Measure::Here(Box::new(measure)), note: None }
    }

    /// The contender `go`: a subcommand of the program in `bench/go`.
    pub(crate) fn go(processors: usize, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { name: "go", measure: Measure::Go { arguments, processors }, note: None }
    }

    /// The contender `jdk`: a subcommand of the program in `bench/jvm`. It has as many processors as the row has cores.
    pub(crate) fn jdk(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { name: "jdk", measure: Measure::Jdk { arguments }, note: None }
    }

    /// The same with a note.
    pub(crate) fn note(mut self, note: &'static str) -> Self {
        self.note = Some(note);
        self
    }
}

/// One kind of work.
pub(crate) struct Row {
    pub(crate) family: &'static str,
    /// What tells the rows of a family apart: a number of workers, tasks, coroutines or timers.
    pub(crate) number: Option<usize>,
    pub(crate) title: String,
    /// Every contender is pinned to this many cores.
    pub(crate) cores: usize,
    pub(crate) metrics: &'static [Metric],
    pub(crate) contenders: Vec<Contender>,
    /// What the row stands for, or leaves out.
    pub(crate) note: &'static str,
}

impl Row {
    /// `family` or `family-number`.
    pub(crate) fn name(&self) -> String {
        match self.number {
            Some(number) => format!("{}-{number}", self.family),
            None => self.family.to_owned(),
        }
    }
}
