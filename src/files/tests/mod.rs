//! Tests of files: crashes at every call, errors of every call, damage in every file.

mod commits;
mod crashes;
mod damage;
mod database;
mod disk;
mod faults;
mod formats;
