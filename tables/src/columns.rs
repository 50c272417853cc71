//! Which columns of a file hold the keys and the values.

use crate::{Choice, ReadOptions, Type, shown};

/// The places of the columns, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    pub key: usize,
    /// A set has none.
    pub value: Option<usize>,
}

/// What a file's columns are named, or how many there are if it doesn't name them.
#[derive(Debug)]
pub enum Names {
    Known(Vec<String>),
    Unknown(usize),
}

impl Names {
    fn len(&self) -> usize {
        match self {
            Names::Known(names) => names.len(),
            Names::Unknown(len) => *len,
        }
    }

    /// Returns what messages call a column.
    pub fn shown(&self, column: usize) -> String {
        match self {
            Names::Known(names) => format!("column {} ({})", column + 1, shown(&names[column])),
            Names::Unknown(_) => format!("column {}", column + 1),
        }
    }

    /// Returns how many columns there are, and which.
    fn summary(&self) -> String {
        const MOST: usize = 10;
        let count = self.len();
        let columns = if count == 1 { "1 column" } else { &format!("{count} columns") };
        match self {
            Names::Known(names) if count <= MOST => {
                let names: Vec<String> = names.iter().map(|name| shown(name)).collect();
                format!("{columns} ({})", names.join(", "))
            }
            _ => columns.into(),
        }
    }

    /// Returns the column of a name; an error if there are several.
    fn find(&self, name: &str) -> Result<Option<usize>, String> {
        let Names::Known(names) = self else { return Ok(None) };
        let find = |is_same: &dyn Fn(&str) -> bool| -> Vec<usize> {
            (0..names.len()).filter(|&column| is_same(&names[column])).collect()
        };
        let exact = find(&|it| it == name);
        let found =
            if exact.is_empty() { find(&|it| it.eq_ignore_ascii_case(name)) } else { exact };
        match found[..] {
            [] => Ok(None),
            [column] => Ok(Some(column)),
            [first, second, ..] => Err(format!(
                "{} columns are named `{}`; choose one by its number, such as {} or {}",
                found.len(),
                shown(name),
                first + 1,
                second + 1
            )),
        }
    }

    fn choose(&self, choice: &Choice) -> Result<usize, String> {
        match choice {
            Choice::Number(number) => match number.checked_sub(1) {
                Some(column) if column < self.len() => Ok(column),
                _ => Err(format!("there is no column {number}: the file has {}", self.summary())),
            },
            Choice::Name(name) => self.find(name)?.ok_or_else(|| {
                format!("no column is named `{}`: the file has {}", shown(name), self.summary())
            }),
        }
    }
}

/// Finds the columns: those that were chosen, then those named `key` and `value`, then, if there are no
/// others, the rest in their order.
pub fn find(names: &Names, options: &ReadOptions) -> Result<Columns, String> {
    let roles = [("key", &options.key_column), ("value", &options.value_column)];
    let roles = if options.value == Type::None { &roles[..1] } else { &roles };
    let mut found = Vec::new();
    for (role, choice) in roles {
        found.push(match choice {
            Some(choice) => Some(names.choose(choice)?),
            None => names.find(role)?,
        });
    }
    for index in 0..roles.len() {
        let mut others = (0..names.len()).filter(|column| !found.contains(&Some(*column)));
        found[index] = match found[index] {
            None if names.len() == roles.len() => others.next(),
            known => known,
        };
        if found[index].is_none() {
            let (role, _) = roles[index];
            let has = names.summary();
            if names.len() == 1 && roles.len() == 2 {
                return Err(format!(
                    "the file has {has}, but keys and values need two; a set has keys alone (option \
                     value=none)"
                ));
            }
            return Err(format!(
                "which column holds the {role}s? Choose it by name or number (option {role}-column): \
                 the file has {has}, none named `{role}`"
            ));
        }
    }
    Ok(Columns { key: found[0].unwrap_or_default(), value: found.get(1).copied().flatten() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Names {
        Names::Known(names.iter().map(|name| name.to_string()).collect())
    }

    fn find_chosen(names: &Names, key: &str, value: &str) -> Result<(usize, usize), String> {
        let choice = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        let options = ReadOptions {
            key_column: choice(key),
            value_column: choice(value),
            ..ReadOptions::new(Type::U32, Type::U32)
        };
        find(names, &options).map(|columns| (columns.key, columns.value.unwrap()))
    }

    #[test]
    fn columns_are_found_by_choice_by_name_and_by_place() {
        assert_eq!(find_chosen(&named(&["Value", "x", "KEY"]), "", ""), Ok((2, 0)));
        assert_eq!(find_chosen(&named(&["price", "key"]), "", ""), Ok((1, 0)));
        assert_eq!(find_chosen(&named(&["a", "b"]), "", ""), Ok((0, 1)));
        assert_eq!(find_chosen(&named(&["a", "b"]), "b", ""), Ok((1, 0)));
        assert_eq!(find_chosen(&named(&["a", "A", "b"]), "A", "B"), Ok((1, 2)));
        assert_eq!(find_chosen(&named(&["a", "b", "key"]), "2", "1"), Ok((1, 0)));
        assert_eq!(find_chosen(&Names::Unknown(5), "5", "2"), Ok((4, 1)));
        assert_eq!(find_chosen(&Names::Unknown(2), "", "1"), Ok((1, 0)));
        let set = ReadOptions::new(Type::U32, Type::None);
        let columns = find(&Names::Unknown(1), &set);
        assert_eq!(columns, Ok(Columns { key: 0, value: None }));
    }

    #[test]
    fn what_cannot_be_found_is_explained() {
        let check = |names: &Names, key: &str, value: &str, what: &str| {
            let error = find_chosen(names, key, value).unwrap_err();
            assert!(error.contains(what), "{error}");
        };
        let three = named(&["a", "b", "c"]);
        check(&three, "", "", "the file has 3 columns (a, b, c), none named `key`");
        check(&three, "a", "", "which column holds the values?");
        check(&three, "d", "", "no column is named `d`: the file has 3 columns (a, b, c)");
        check(&three, "4", "a", "there is no column 4");
        check(&three, "0", "a", "there is no column 0");
        let duplicates = named(&["id", "key", "id", "value", "Value", "KEY", "key"]);
        check(&duplicates, "id", "value", "choose one by its number, such as 1 or 3");
        check(&duplicates, "", "value", "2 columns are named `key`");
        assert_eq!(find_chosen(&duplicates, "KEY", "value"), Ok((5, 3)));
        check(&Names::Unknown(3), "", "", "the file has 3 columns, none named `key`");
    }
}
