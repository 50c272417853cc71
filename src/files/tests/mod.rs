//! Tests of files: crashes at every call, errors of every call, damage in every file.

mod crashes;
mod database;
