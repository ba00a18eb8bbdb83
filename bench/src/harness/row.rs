//! The parts of a row.

/// The unit of a metric, which determines how its number is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    Bytes,
    Seconds,
    /// Per cent.
    Percent,
    /// A count.
    Count,
    /// A multiple of the value at the start.
    TimesTheStart,
    /// A multiple of the least possible value.
    TimesTheLeast,
}

impl Unit {
    /// Returns the name in tables and in the JSON file.
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

/// One number that every contender of a row measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
}

impl Metric {
    /// The time of one operation, the metric of most rows.
    pub(crate) const TIME: Metric = Metric { name: "time", unit: Unit::Nanoseconds };
}

/// One contender's measurements in one round: metrics and values.
pub(crate) type Sample = Vec<(&'static str, f64)>;

/// How a contender measures.
pub(crate) enum Measure {
    /// By calling this in the child process.
    Here(Box<dyn Fn() -> Sample>),
    /// By replacing the child process by the Go program, with these arguments and this many
    /// processors.
    Go { arguments: Vec<String>, processors: usize },
    /// By replacing it by the Java program, with these arguments.
    Jdk { arguments: Vec<String> },
}

/// Provides what a contender needs, or returns why it cannot run here.
pub(crate) type Need = Box<dyn Fn() -> Result<(), String>>;

/// One library that does a row's work.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) measure: Measure,
    /// Provides what it needs, before it is measured: builds a program, for instance.
    pub(crate) needs: Option<Need>,
    /// A remark that a fair comparison needs, such as a limit on its size.
    pub(crate) note: Option<&'static str>,
}

impl Contender {
    /// Creates a contender with the single metric [`Metric::TIME`].
    pub(crate) fn timed(name: &'static str, measure: impl Fn() -> f64 + 'static) -> Self {
        Self::sampled(name, move || vec![(Metric::TIME.name, measure())])
    }

    /// Creates a contender that returns a whole sample.
    pub(crate) fn sampled(name: &'static str, measure: impl Fn() -> Sample + 'static) -> Self {
        Self { name, measure: Measure::Here(Box::new(measure)), needs: None, note: None }
    }

    /// Creates the contender `go`: a subcommand of the program in `bench/go`.
    pub(crate) fn go(processors: usize, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let measure = Measure::Go { arguments, processors };
        Self { name: "go", measure, needs: None, note: None }
    }

    /// Creates the contender `jdk`: a subcommand of the program in `bench/jvm`. It has as many
    /// processors as the row has cores.
    pub(crate) fn jdk(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { name: "jdk", measure: Measure::Jdk { arguments }, needs: None, note: None }
    }

    /// Sets what provides the things that it needs. It is called in the parent process, which is
    /// not pinned.
    pub(crate) fn needs(mut self, needs: impl Fn() -> Result<(), String> + 'static) -> Self {
        self.needs = Some(Box::new(needs));
        self
    }

    /// Adds a note.
    pub(crate) fn note(mut self, note: &'static str) -> Self {
        self.note = Some(note);
        self
    }
}

/// One kind of work.
pub(crate) struct Row {
    pub(crate) family: &'static str,
    /// The number that distinguishes the rows of a family: of workers, tasks, coroutines or timers.
    pub(crate) number: Option<usize>,
    pub(crate) title: String,
    /// Every contender is pinned to this many cores.
    pub(crate) cores: usize,
    pub(crate) metrics: &'static [Metric],
    pub(crate) contenders: Vec<Contender>,
    /// What the row represents, or leaves out.
    pub(crate) note: &'static str,
}

impl Row {
    /// Returns `family` or `family-number`.
    pub(crate) fn name(&self) -> String {
        match self.number {
            Some(number) => format!("{}-{number}", self.family),
            None => self.family.to_owned(),
        }
    }
}
