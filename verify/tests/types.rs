//! Every type of keys and width of values has a check, which passes.

use gpulsm::Devices;
use gpulsm_verify::{KEYS, List, check_of};

#[test]
fn every_type_is_checked() {
    for key in KEYS {
        for width in [0, 4, 8, 16] {
            let check = check_of(key, width).expect(key);
            let devices = "cpu".parse::<Devices>().expect("a device");
            let list =
                List { seed: 7, len: 25, scale: 1, batch_size: None, combine: None, devices };
            let checked = check(&list).expect("a dictionary on the CPU");
            assert!(checked.is_ok(), "{key}, values of {width} bytes: {checked:?}");
        }
    }
    assert!(check_of("u32", 5).is_none());
    assert!(check_of("u16", 4).is_none());
}
