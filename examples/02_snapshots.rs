//! A writer takes updates while readers answer from snapshots, each of one moment.

use std::sync::mpsc;
use std::thread;

use gpulsm::{Dictionary, Error, Snapshot};

fn main() -> Result<(), Error> {
    let mut accounts: Dictionary<u64, i64> = (0..100_000).map(|account| (account, 100)).collect();
    let (sender, receiver) = mpsc::channel::<(u64, Snapshot<u64, i64>)>();

    let reader = thread::spawn(move || -> Result<(), Error> {
        for (round, snapshot) in receiver {
            // Money only moves: at every moment the sum is the same.
            let (_, balances) = snapshot.to_vecs()?;
            let sum: i64 = balances.iter().sum();
            println!("after round {round:>2} the accounts hold {sum}");
            assert_eq!(sum, 10_000_000);
        }
        Ok(())
    });

    for round in 1..=10u64 {
        // Each even account pays 1 to the account after it: one batch, so no reader sees half.
        let keys: Vec<u64> = (0..100_000).collect();
        let mut balances: Vec<i64> =
            accounts.lookup(&keys)?.into_iter().map(|balance| balance.unwrap_or(0)).collect();
        for pair in balances.chunks_exact_mut(2) {
            pair[0] -= 1;
            pair[1] += 1;
        }
        accounts.insert(&keys, &balances)?;
        sender.send((round, accounts.snapshot())).expect("the reader lives");
    }
    drop(sender);
    reader.join().expect("the reader does not panic")
}
