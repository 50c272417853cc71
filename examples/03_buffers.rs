//! Answers go into buffers that are made once and grow when an answer doesn't fit.

use gpulsm::{Dictionary, Error};

fn main() -> Result<(), Error> {
    // Moving points on a line: a position in metres, and who is there.
    let positions: Vec<f32> = (0..200_000).map(|i| (i as f32 * 0.37) % 50_000.0).collect();
    let names: Vec<u32> = (0..200_000).collect();
    let points = Dictionary::bulk_build(&positions, &names)?;

    let mut offsets = vec![0; 101];
    let (mut keys, mut values) = (vec![0.0; 1 << 16], vec![0; 1 << 16]);
    let mut near = 0;
    for step in 0..50 {
        let lo: Vec<f32> = (0..100).map(|i| (i * 500 + step) as f32).collect();
        let hi: Vec<f32> = lo.iter().map(|lo| lo + 25.0).collect();
        match points.range_into((&lo, &hi), &mut offsets, &mut keys, &mut values) {
            Ok(found) => near += found,
            Err(Error::BufferTooSmall { needed, .. }) => {
                // An answer that doesn't fit says how much is needed.
                keys.resize(needed, 0.0);
                values.resize(needed, 0);
                near += points.range_into((&lo, &hi), &mut offsets, &mut keys, &mut values)?;
            }
            Err(other) => return Err(other),
        }
    }
    println!("{near} points within 25 m ahead of 100 moving places, over 50 steps");
    assert!(near > 0);
    Ok(())
}
