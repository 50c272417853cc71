//! The report as a document, and its forms: a page and Markdown.

mod document;
pub mod html;
pub mod markdown;

pub use document::{Document, Figure, Part, Section, Table, powers};
