//! Files say what their keys and values are, whoever wrote them: callers that know their types at run time only, as
//! the Python package does, read what typed dictionaries wrote, and the other way round.

use std::{env, fs};

use gpulsm::files::{check, info};
use gpulsm::private::{Encoding, Layout, Part, StoredTypes, types_in, types_in_folder};
use gpulsm::{Combine, Dictionary, Error, Key};

use crate::each_device;
use crate::files::Scratch;
use crate::of_checkout;

type Quote = (u32, i64);

fn quotes() -> Vec<(Quote, f64)> {
    (0..100).map(|i| ((i % 7, 1000 - 37 * i64::from(i)), f64::from(i) / 4.0)).collect()
}

/// What Python calls the types of quotes: a number, and a time.
fn quote_types() -> StoredTypes {
    let key = vec![Part::Number(Encoding::Unsigned, 4), Part::Number(Encoding::Signed, 8)];
    let notes = vec![("numpy.key".into(), "['<u4', '<M8[ns]']".into())];
    StoredTypes { key, value: "f64".into(), notes }
}

/// Packs keys as callers do that know their types at run time only.
fn packed(keys: &[Quote]) -> Vec<u128> {
    let layout = Layout::new(quote_types().key).unwrap();
    let numbers: Vec<u32> = keys.iter().map(|key| key.0).collect();
    let times: Vec<i64> = keys.iter().map(|key| key.1).collect();
    let mut packed = vec![0; keys.len()];
    let columns = [bytemuck::cast_slice(&numbers), bytemuck::cast_slice(&times)];
    layout.pack::<u128>(&columns, &mut packed);
    packed
}

each_device! {
    fn packed_keys_and_tuples_share_folders(device) {
        let scratch = Scratch::new("packed");
        let path = scratch.path("folder");
        let (keys, values): (Vec<_>, Vec<_>) = quotes().into_iter().unzip();
        let bytes: Vec<[u8; 8]> = values.iter().map(|value| value.to_ne_bytes()).collect();
        let by_names = || Dictionary::<u128, [u8; 8]>::builder().device(device).stored_as(quote_types());
        let by_types = || Dictionary::<Quote, f64>::builder().device(device);

        let mut d = by_names().open(&path).unwrap();
        d.insert(&packed(&keys[..50]), &bytes[..50]).unwrap();
        d.checkpoint().unwrap();
        drop(d);
        let mut d = by_types().open(&path).unwrap();
        assert_eq!(d.len(), Ok(50));
        d.insert(&keys[50..], &values[50..]).unwrap();
        d.checkpoint().unwrap();
        drop(d);
        let d = by_names().open(&path).unwrap();
        assert_eq!(d.lookup(&packed(&keys)).unwrap(), bytes.iter().map(|&b| Some(b)).collect::<Vec<_>>());
        drop(d);

        let types = types_in_folder(&path).unwrap().unwrap();
        assert_eq!((types.stored, types.rule), (quote_types(), Combine::Replace));
        assert_eq!(info(&path).unwrap().key, "(u32, i64)");
        assert!(info(&path).unwrap().to_string().contains(" numpy.key  ['<u4', '<M8[ns]']"));
        let error = Dictionary::<(u32, u64), f64>::builder().open(&path).err().unwrap();
        assert!(error.to_string().contains("keys of type (u32, i64), but (u32, u64)"), "{error}");
    }
}

#[test]
fn saved_files_have_the_names_of_their_caller() {
    let scratch = Scratch::new("names");
    let path = scratch.path("file");
    let (keys, _): (Vec<_>, Vec<_>) = quotes().into_iter().unzip();
    let builder = Dictionary::<u128, [u8; 8]>::builder().stored_as(quote_types());
    let d = builder.bulk_build(&packed(&keys), &vec![[0; 8]; 100]).unwrap();
    d.save(&path).unwrap();
    assert_eq!(types_in(&path).unwrap().stored, quote_types());
    let typed = Dictionary::<Quote, f64>::load(&path).unwrap();
    assert_eq!(typed.first().unwrap().unwrap().0, *keys.iter().min().unwrap());
    // Whoever loads and saves it keeps the notes.
    typed.snapshot().thaw().save(scratch.path("again")).unwrap();
    assert_eq!(types_in(&scratch.path("again")).unwrap().stored, quote_types());
    let ordered: Vec<u128> = keys.iter().map(|key| key.to_ordered()).collect();
    assert_eq!(ordered, packed(&keys));
}

#[test]
fn types_are_read_without_opening() {
    let scratch = Scratch::new("types");
    let path = scratch.path("folder");
    assert_eq!(types_in_folder(&path), Ok(None));
    fs::create_dir(&path).unwrap();
    assert_eq!(types_in_folder(&path), Ok(None));
    let d = Dictionary::<i32, [u32; 2]>::builder().combine(Combine::Max).open(&path).unwrap();
    let types = types_in_folder(&path).unwrap().unwrap();
    assert_eq!(types.stored.key, [Part::Number(Encoding::Signed, 4)]);
    assert_eq!((types.stored.value.as_str(), types.value_width), ("[u32; 2]", 8));
    assert_eq!((types.rule, types.element.unwrap().width), (Combine::Max, 4));
    assert_eq!(types_in(&path), Ok(types.clone()));
    assert!(matches!(types_in(&scratch.path("none")), Err(Error::Io { .. })));
    d.save(scratch.path("file")).unwrap();
    assert_eq!(types_in(&scratch.path("file")), Ok(types));
    assert!(matches!(types_in_folder(&scratch.path("file")), Err(Error::NotADictionary { .. })));
}

/// The Python package's tests read this file. `GPULSM_GOLDEN_REWRITE=1` writes it anew, if the format changes.
#[test]
fn the_file_that_python_reads_has_quotes() {
    let path = of_checkout("python/tests/data/quotes.gpulsm");
    if env::var_os("GPULSM_GOLDEN_REWRITE").is_some() {
        let quotes: Dictionary<Quote, f64> = quotes().into_iter().collect();
        quotes.save(&path).unwrap();
    }
    check(&path).unwrap();
    let loaded = Dictionary::<Quote, f64>::load(&path).unwrap();
    let expected: Dictionary<Quote, f64> = quotes().into_iter().collect();
    assert_eq!(loaded.to_vecs(), expected.to_vecs());
}

/// The Python package wrote this file: `python/tests/test_persistence.py` says how.
#[test]
fn a_file_that_python_wrote_is_read() {
    let path = of_checkout("tests/it/data/python.gpulsm");
    check(&path).unwrap();
    let loaded = Dictionary::<([u8; 4], i64), i64>::load(&path).unwrap();
    assert_eq!(
        loaded.to_vecs().unwrap(),
        (
            vec![(*b"ABC\0", -1), (*b"ABC\0", 1_700_000_000_000_000_000), (*b"XYZW", 0)],
            vec![-5, 1, 2]
        )
    );
    let notes = info(&path).unwrap().notes;
    assert_eq!(
        notes,
        [
            ("numpy.key".to_string(), "['|S4', '<M8[ns]']".to_string()),
            ("numpy.value".to_string(), "'<m8[s]'".to_string())
        ]
    );
}
