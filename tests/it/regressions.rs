//! Failures that random lists once found, shrunk and kept.

use gpulsm::Dictionary;

use crate::each_device;

each_device! {
    /// The integer below that of 0.0 is where −0.0 would be, and was turned back into 0.0: an excluded
    /// end came back in.
    fn half_open_ranges_of_floats_exclude_zero(device) {
        let mut d = Dictionary::<f64, u32>::builder().device(device).build().unwrap();
        d.insert(&[-1.0, 0.0, 1.0, f64::NAN], &[1, 2, 3, 4]).unwrap();
        assert_eq!(d.pairs_in(..0.0), Ok(vec![(-1.0, 1)]));
        assert_eq!(d.count_in(-1.0..0.0), Ok(1));
        assert_eq!(d.count_in(..f64::NAN), Ok(3));
    }

    /// `select` took the pivot of one run as passed there but not in the others, counted the key
    /// twice, and answered with the value of an older run.
    fn select_of_a_key_in_two_runs_answers_with_the_newer_value(device) {
        let mut d = Dictionary::<i32, u32>::builder().device(device).batch_size(1).build().unwrap();
        d.insert(&[i32::MIN, i32::MIN + 9], &[0, 2]).unwrap();
        d.insert(&[i32::MIN], &[1]).unwrap();
        assert!(d.stats().unwrap().levels.len() > 1);
        assert_eq!(d.select(&[0, 1]).unwrap(), [Some((i32::MIN, 1)), Some((i32::MIN + 9, 2))]);
    }
}
