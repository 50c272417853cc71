//! Comparison of answers with the model's.

use std::error::Error;
use std::fmt::{self, Debug};

use gpulsm::testing::model::Model;

/// Compares answers, and counts them.
#[derive(Default)]
pub(super) struct Checked(pub u64);

impl Checked {
    /// Compares every answer with what it should be.
    pub fn each<Q: Debug, A: PartialEq + Debug>(
        &mut self,
        name: &str,
        queries: &[Q],
        answers: &[A],
        expected: impl Fn(&Q) -> A,
    ) -> Result<(), Box<dyn Error>> {
        if answers.len() != queries.len() {
            return Err(wrong(name, &answers.len(), &queries.len()));
        }
        for (query, answer) in queries.iter().zip(answers) {
            let expected = expected(query);
            if *answer != expected {
                return Err(wrong(&format!("{name} of {query:?}"), answer, &expected));
            }
        }
        self.0 += queries.len() as u64;
        Ok(())
    }

    /// Compares every pair.
    pub fn all(
        &mut self,
        pairs: Result<(Vec<u32>, Vec<u32>), gpulsm::Error>,
        model: &Model<u32, u32>,
    ) -> Result<(), WrongAnswer> {
        let (keys, values) = pairs.map_err(|error| WrongAnswer(error.to_string()))?;
        let pairs = keys.into_iter().zip(values);
        if !pairs.eq(model.range(0, u32::MAX)) {
            return Err(WrongAnswer("the pairs are not those of the model".into()));
        }
        self.0 += model.len() as u64;
        Ok(())
    }
}

/// An answer that differs from the model's.
#[derive(Debug)]
pub struct WrongAnswer(String);

impl fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for WrongAnswer {}

/// Makes an error of an answer and what it should have been.
pub(super) fn wrong(name: &str, answer: &dyn Debug, expected: &dyn Debug) -> Box<dyn Error> {
    let short = |what: &dyn Debug| format!("{what:?}").chars().take(100).collect::<String>();
    Box::new(WrongAnswer(format!(
        "{name}: the dictionary says {}, the model {}",
        short(answer),
        short(expected)
    )))
}
