//! `gpulsm report`, as files and in a browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::{gpulsm, printed};
use crate::results::{Before, Folder, Results};
use crate::sample;

/// Writes a run into a folder below another.
fn folder(below: &Path, name: &str, results: &Results) -> String {
    let path = below.join(name);
    let (mut folder, _) =
        Folder::open(&path, &results.run, Before::Continue).expect("a new folder");
    for row in &results.rows {
        folder.add(row).expect("a row");
    }
    path.to_str().expect("UTF-8").to_string()
}

#[test]
fn a_report_is_a_page_and_tables() {
    let temp = tempfile::tempdir().expect("a folder");
    let run = folder(temp.path(), "run", &sample::full(1.0, 5));
    let said = printed(&["report", &run], "");
    assert_eq!(said, format!("wrote {run}/report.html\nwrote {run}/report.md\n"));
    let page = fs::read_to_string(format!("{run}/report.html")).expect("a page");
    assert!(page.contains("<h1>gpulsm on NVIDIA H200</h1>"));
    let tables = fs::read_to_string(format!("{run}/report.md")).expect("tables");
    assert!(tables.contains("## Insertion\n"), "{tables}");
}

#[test]
fn two_runs_are_compared_and_the_folder_is_made() {
    let temp = tempfile::tempdir().expect("a folder");
    let old = folder(temp.path(), "old", &sample::full(1.0, 8));
    // Half as fast, on a machine that is as fast as before.
    let mut slower = sample::full(0.5, 8);
    for (row, before) in slower.rows.iter_mut().zip(sample::full(1.0, 8).rows) {
        if ["sa", "hash", "sort"].contains(&row.series.as_str()) {
            *row = before;
        }
    }
    let new = folder(temp.path(), "new", &slower);
    let out = temp.path().join("made/here");
    let said = printed(&["report", &old, &new, "--out", out.to_str().expect("UTF-8")], "");
    assert!(said.starts_with("old → new: of "), "{said}");
    assert!(said.contains("  0.50 ×  slower"), "{said}");
    assert!(said.contains(" more in the report\n"), "{said}");
    let page = fs::read_to_string(out.join("comparison.html")).expect("a page");
    assert!(page.contains("From old to new: beyond noise"));
}

#[test]
fn a_folder_that_is_none_is_named() {
    let output = gpulsm(&["report", "no/such/folder"], b"");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("no/such/folder/run.json"), "{errors}");
    assert!(errors.contains("gpulsm bench --out"), "{errors}");
}

/// A browser that can be run without a screen, if there is one.
fn browser() -> Option<PathBuf> {
    let named = env::var_os("CHROMIUM").map(PathBuf::from);
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = env::split_paths(&path).collect();
    let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    named.into_iter().chain(found).find(|browser| browser.is_file())
}

/// Writes what is wrong with the layout into the page: drawings without a size, text that leaves
/// its drawing or lies on other text, and a page wider than its window.
const MEASURE: &str = r#"<script>
const wrong = [];
const svgs = [...document.querySelectorAll("svg")];
for (const svg of svgs) {
  const frame = svg.getBoundingClientRect();
  if (frame.width < 100 || frame.height < 60) wrong.push(svg.id + " is " + frame.width + " by " + frame.height);
  const texts = [...svg.querySelectorAll("text")].filter(text => text.textContent && text.getBoundingClientRect().width);
  const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
  boxes.forEach(([text, box], i) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      wrong.push(svg.id + ": \"" + text + "\" leaves the drawing");
    for (const [other, next] of boxes.slice(i + 1)) {
      const wide = Math.min(box.right, next.right) - Math.max(box.left, next.left);
      const high = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
      if (wide > 1 && high > 4) wrong.push(svg.id + ": \"" + text + "\" lies on \"" + other + "\"");
    }
  });
}
if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page is wider than " + innerWidth);
const measured = document.createElement("pre");
measured.id = "measured";
measured.textContent = "drawings: " + svgs.length + "; wrong: " + (wrong.join("; ") || "nothing") + " END";
document.body.append(measured);
</script>"#;

/// Opens the page in a window of a width, and returns what was measured.
fn measured(browser: &Path, page: &str, temp: &Path, width: u32) -> String {
    let path = temp.join("measured.html");
    fs::write(&path, page.replace("</body>", &format!("{MEASURE}</body>")))
        .expect("a page to measure");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--no-first-run", "--dump-dom"])
        .arg(format!("--user-data-dir={}", temp.join(format!("browser{width}")).display()))
        .arg(format!("--window-size={width},1000"))
        .arg(format!("file://{}", path.display()))
        .output()
        .expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout);
    let found =
        dom.rsplit_once("<pre id=\"measured\">").and_then(|(_, rest)| rest.split_once(" END"));
    let errors = String::from_utf8_lossy(&output.stderr);
    found.unwrap_or_else(|| panic!("nothing was measured: {errors}")).0.to_string()
}

#[test]
fn the_page_is_laid_out_in_a_browser() {
    let Some(browser) = browser() else {
        assert_ne!(env::var("GPULSM_BROWSER").as_deref(), Ok("required"), "no browser was found");
        eprintln!(
            "NOT CHECKED: no Chromium was found, so nobody has looked at the page (set CHROMIUM)"
        );
        return;
    };
    let temp = tempfile::tempdir().expect("a folder");
    // In turns, so that changes are drawn.
    let [old, new] = [("old", 1.0, 0), ("new", 0.8, 5)].map(|(name, speed, less)| {
        let mut results = sample::full(speed, less);
        results.run.in_turns_since = Some(1);
        folder(temp.path(), name, &results)
    });
    for (folders, page, drawings) in [
        (vec![&*old], format!("{old}/report.html"), 23),
        (vec![&*old, &*new], format!("{new}/comparison.html"), 31),
    ] {
        printed(&[vec!["report"], folders].concat(), "");
        let page = fs::read_to_string(page).expect("a page");
        for width in [1200, 500] {
            let measured = measured(&browser, &page, temp.path(), width);
            assert_eq!(measured, format!("drawings: {drawings}; wrong: nothing"), "{width} wide");
        }
    }
}
