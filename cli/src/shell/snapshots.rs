//! Named snapshots: dictionaries as they were, to be queried later.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpulsm_backends::dictionary::AnyDictionary;
use gpulsm_backends::types::Types;

use super::answer::{Answer, Saved};
use super::command::{Word, shown};
use super::failure::{Code, Failure};
use super::interpreter::{Interpreter, Outcome};

/// The words that may follow `snapshot`.
pub const ACTIONS: &[&str] = &["save", "use", "leave", "drop"];

/// All snapshots, and the one that is in use.
#[derive(Clone, Default)]
pub struct Snapshots {
    saved: BTreeMap<String, Snapshot>,
    used: Option<String>,
}

/// A dictionary as it was, and its types: `load` may change those of the shell.
#[derive(Clone)]
pub struct Snapshot {
    pub dictionary: Arc<dyn AnyDictionary>,
    pub types: Types,
}

impl Snapshots {
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.saved.keys()
    }

    /// Returns the snapshot that is in use.
    pub fn in_use(&self) -> Option<&Snapshot> {
        self.saved.get(self.used()?)
    }

    /// Returns the name of the snapshot that is in use.
    pub fn used(&self) -> Option<&str> {
        self.used.as_deref()
    }

    /// Refuses to change anything while a snapshot is in use.
    pub fn expect_none_in_use(&self) -> Result<(), Failure> {
        let Some(name) = &self.used else { return Ok(()) };
        let message = format!(
            "the snapshot `{}` is in use, and a snapshot never changes: `snapshot leave` goes back to \
             the dictionary",
            shown(name)
        );
        Err(Failure::new(Code::ReadOnly, message))
    }

    fn find(&self, name: Word<'_>) -> Result<&Snapshot, Failure> {
        self.saved.get(name.text).ok_or_else(|| {
            let names: Vec<String> =
                self.saved.keys().map(|name| format!("`{}`", shown(name))).collect();
            let known = match names.is_empty() {
                true => "`snapshot save NAME` takes one".into(),
                false => format!("there are {}", names.join(", ")),
            };
            Failure { code: Code::Snapshot, ..name.wrong(format!("no such snapshot; {known}")) }
        })
    }
}

impl Interpreter {
    /// Executes `snapshot`, with what follows it.
    pub fn snapshot(&mut self, command: Word<'_>, args: &[Word<'_>]) -> Outcome {
        match *args {
            [] => self.list_snapshots(),
            [action, name] if action.text == "save" => self.save_snapshot(name),
            [action, name] if action.text == "use" => self.use_snapshot(name),
            [action, name] if action.text == "drop" => self.drop_snapshot(name),
            [action] if action.text == "leave" => self.leave_snapshot(action),
            [action] if ACTIONS.contains(&action.text) => {
                Err(action.wrong(format!("the name is missing: snapshot {} NAME", action.text)))
            }
            [action, ..] if !ACTIONS.contains(&action.text) => {
                Err(action.wrong("expected save NAME, use NAME, leave or drop NAME"))
            }
            [.., last] => Err(last.wrong(format!("one argument too many: {}", command.usage()))),
        }
    }

    fn list_snapshots(&self) -> Outcome {
        let Snapshots { saved, used } = &self.snapshots;
        let describe = |(name, snapshot): (&String, &Snapshot)| {
            let in_use = used.as_ref() == Some(name);
            Ok(Saved { name: name.clone(), len: snapshot.dictionary.len()? as u64, in_use })
        };
        Ok(Answer::Snapshots(saved.iter().map(describe).collect::<Result<_, Failure>>()?))
    }

    fn save_snapshot(&mut self, name: Word<'_>) -> Outcome {
        self.snapshots.expect_none_in_use()?;
        if self.snapshots.saved.contains_key(name.text) {
            let wrong = name.wrong(format!(
                "there is a snapshot of this name: choose another, or `snapshot drop {}` first",
                shown(name.text)
            ));
            return Err(Failure { code: Code::Snapshot, ..wrong });
        }
        let snapshot =
            Snapshot { dictionary: self.dictionary.frozen().into(), types: self.types() };
        self.snapshots.saved.insert(name.text.into(), snapshot);
        Ok(Answer::Done)
    }

    /// Lets queries go to a snapshot until `leave`.
    fn use_snapshot(&mut self, name: Word<'_>) -> Outcome {
        self.snapshots.find(name)?;
        self.snapshots.used = Some(name.text.into());
        Ok(Answer::Done)
    }

    fn leave_snapshot(&mut self, action: Word<'_>) -> Outcome {
        if self.snapshots.used.take().is_none() {
            let wrong = action.wrong("no snapshot is in use; `snapshot use NAME` uses one");
            return Err(Failure { code: Code::Snapshot, ..wrong });
        }
        Ok(Answer::Done)
    }

    fn drop_snapshot(&mut self, name: Word<'_>) -> Outcome {
        self.snapshots.find(name)?;
        if self.snapshots.used() == Some(name.text) {
            let wrong = name.wrong("this snapshot is in use: `snapshot leave` first");
            return Err(Failure { code: Code::Snapshot, ..wrong });
        }
        self.snapshots.saved.remove(name.text);
        Ok(Answer::Done)
    }
}
