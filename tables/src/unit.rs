//! What the integers of a column of times count.

use std::fmt;

/// What the integers of a column count, if its file says that they are times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Days since 1970-01-01.
    Days,
    /// Parts of a second since 1970-01-01.
    Timestamp {
        /// Which parts.
        step: Step,
        /// Whether midnight is that of UTC. If not, the time zone is unknown.
        is_utc: bool,
    },
    /// Parts of a second since midnight.
    TimeOfDay(Step),
}

/// A part of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// 10⁻³ s.
    Milliseconds,
    /// 10⁻⁶ s.
    Microseconds,
    /// 10⁻⁹ s.
    Nanoseconds,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Days => f.write_str("days since 1970-01-01"),
            Unit::Timestamp { step, is_utc } => {
                let zone = if *is_utc { "UTC" } else { "(no time zone)" };
                write!(f, "{step} since 1970-01-01 {zone}")
            }
            Unit::TimeOfDay(step) => write!(f, "{step} since midnight"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Milliseconds => "milliseconds",
            Step::Microseconds => "microseconds",
            Step::Nanoseconds => "nanoseconds",
        })
    }
}
