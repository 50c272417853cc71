//! Which columns of a file hold the keys and the values.

use crate::rows::Role;
use crate::{Choice, shown};

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

/// Finds the places of columns, counted from 0: those that were chosen, then those with the names of their roles,
/// then, if there are no others, the rest in their order. No column has two roles.
pub fn find(names: &Names, roles: &[Role<'_>]) -> Result<Vec<usize>, String> {
    check_parts(names, roles)?;
    let mut found = Vec::new();
    for role in roles {
        found.push(match role.choice {
            Some(choice) => Some(names.choose(choice)?),
            None => names.find(&role.name)?,
        });
    }
    if names.len() == roles.len() {
        for index in 0..roles.len() {
            let mut others = (0..names.len()).filter(|column| !found.contains(&Some(*column)));
            found[index] = found[index].or_else(|| others.next());
        }
    }
    let places = found.iter().zip(roles);
    let places = places.map(|(place, role)| place.ok_or_else(|| missing(role, names, roles)));
    let places: Vec<usize> = places.collect::<Result<_, _>>()?;
    for (index, &place) in places.iter().enumerate() {
        if let Some(first) = places[..index].iter().position(|&other| other == place) {
            let (first, second) = (roles[first].holds(), roles[index].holds());
            let column = names.shown(place);
            return Err(format!(
                "{column} is to hold both {first} and {second}: choose another for one of them"
            ));
        }
    }
    Ok(places)
}

/// Returns an error if a file has a column for a part that keys don't have, and nobody chose other columns.
fn check_parts(names: &Names, roles: &[Role<'_>]) -> Result<(), String> {
    let parts = roles.iter().filter(|role| !role.is_value).count();
    let are_chosen = roles.iter().any(|role| !role.is_value && role.choice.is_some());
    let next = format!("key{}", parts + 1);
    if parts == 1 || are_chosen || names.find(&next)?.is_none() {
        return Ok(());
    }
    Err(format!(
        "the file has a column `{next}`, but keys have {parts} parts; give the type of that part too, or choose \
         {parts} columns by name or number (option key-column, given for each part)"
    ))
}

/// Returns what is to be done about a column that wasn't found.
fn missing(role: &Role<'_>, names: &Names, roles: &[Role<'_>]) -> String {
    let (has, name) = (names.summary(), &role.name);
    let parts = roles.iter().filter(|role| !role.is_value).count();
    if names.len() == 1 && parts == 1 && roles.len() == 2 {
        return format!(
            "the file has {has}, but keys and values need two; a set has keys alone (option value=none)"
        );
    }
    let choose = match role.is_value {
        true => "Choose it by name or number (option value-column)".into(),
        false if parts == 1 => "Choose it by name or number (option key-column)".into(),
        false => {
            format!("Choose {parts} by name or number (option key-column, given for each part)")
        }
    };
    let holds = role.holds();
    format!("which column holds {holds}? {choose}: the file has {has}, none named `{name}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, ReadOptions, RowOptions, Type};

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
        find(names, &RowOptions::from(&options).roles()).map(|columns| (columns[0], columns[1]))
    }

    fn find_parts(names: &Names, columns: &[&str]) -> Result<Vec<usize>, String> {
        let keys = vec![Field::from(Type::U32), Type::I64.into()];
        let key_columns = columns.iter().map(|column| column.parse().unwrap()).collect();
        let options = RowOptions { key_columns, ..RowOptions::new(keys, Type::U32) };
        find(names, &options.roles())
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
        let columns = find(&Names::Unknown(1), &RowOptions::from(&set).roles());
        assert_eq!(columns, Ok(vec![0]));
    }

    #[test]
    fn every_part_of_a_key_has_a_column() {
        assert_eq!(find_parts(&Names::Unknown(3), &[]), Ok(vec![0, 1, 2]));
        assert_eq!(find_parts(&named(&["value", "KEY2", "x", "key1"]), &[]), Ok(vec![3, 1, 0]));
        assert_eq!(find_parts(&named(&["t", "price", "id"]), &["id", "t"]), Ok(vec![2, 0, 1]));
        assert_eq!(find_parts(&named(&["a", "value", "b", "c"]), &["4", "1"]), Ok(vec![3, 0, 1]));
        let error = find_parts(&named(&["key1", "b", "c", "value"]), &[]).unwrap_err();
        assert!(error.contains("which column holds part 2 of the keys?"), "{error}");
        assert!(error.contains("(option key-column, given for each part)"), "{error}");
    }

    #[test]
    fn a_part_too_many_is_not_ignored() {
        for names in [["key1", "key2", "KEY3"].as_slice(), &["key1", "key2", "key3", "value"]] {
            let error = find_parts(&named(names), &[]).unwrap_err();
            assert!(error.contains("a column `key3`, but keys have 2 parts"), "{error}");
        }
        let chosen = find_parts(&named(&["key1", "key2", "key3", "value"]), &["key1", "key3"]);
        assert_eq!(chosen, Ok(vec![0, 2, 3]));
        assert_eq!(find_chosen(&named(&["key", "key2", "value"]), "", ""), Ok((0, 2)));
    }

    #[test]
    fn a_column_has_one_role() {
        let three = named(&["a", "b", "value"]);
        let error = find_parts(&three, &["a", "1"]).unwrap_err();
        let what = "column 1 (a) is to hold both part 1 of the keys and part 2 of the keys";
        assert!(error.starts_with(what), "{error}");
        let error = find_chosen(&three, "value", "").unwrap_err();
        assert!(
            error.starts_with("column 3 (value) is to hold both the keys and the values"),
            "{error}"
        );
        assert!(
            find_chosen(&three, "a", "a").unwrap_err().contains("both the keys and the values")
        );
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
