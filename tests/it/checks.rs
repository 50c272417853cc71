//! What the comparison with the model says of a dictionary that differs.

use gpulsm::Dictionary;
use gpulsm::testing::check::{check, compare_with};
use gpulsm::testing::script::Operation;

/// Compares a dictionary of two pairs with a model that holds `expected`.
fn mismatch(expected: &[(f64, u32)]) -> Result<(), String> {
    let dictionary: Dictionary<f64, u32> = [(0.5, 7), (2.0, 9)].into_iter().collect();
    let expected = expected.iter().map(|&(key, value)| (key.to_bits().into(), value.into()));
    compare_with(&dictionary, &expected.collect::<Vec<_>>())
}

#[test]
fn whatever_differs_from_the_model_is_told() {
    assert_eq!(mismatch(&[(0.5, 7), (2.0, 9)]), Ok(()));
    let told = |expected: &[(f64, u32)]| mismatch(expected).unwrap_err();
    assert_eq!(told(&[(0.5, 7)]), "length: got 2, expected 1");
    assert_eq!(told(&[(0.5, 7), (2.0, 10)]), "ends, at index 1: got 2.0 → 9, expected 2.0 → 10");
    assert_eq!(told(&[(-0.5, 7), (2.0, 9)]), "ends, at index 0: got 0.5 → 7, expected -0.5 → 7");
}

#[test]
fn a_wrong_answer_is_told_with_the_operation_it_came_from() {
    let dictionary: Dictionary<i32, u32> = [(-3, 1)].into_iter().collect();
    // The check begins with an empty model: the dictionary has a pair too many.
    let keys = vec![u128::from((-3i32).cast_unsigned())];
    let mismatch = check(dictionary, &[Operation::Lookup(keys)]).unwrap_err().to_string();
    assert_eq!(mismatch, "operation 0 (Lookup([-3])): values: got [Some(1)], expected [None]");
}
