//! The table of `docs/robustness/abuse.md`.

use std::{env, fmt::Write as _, fs, path::PathBuf, sync::Arc};

use libtest_mimic::Failed;
use parking_lot::Mutex;

use crate::{
    form::Form,
    judgement::{Mib, Millis, Verdict},
    row::{Ran, Row},
    rows::ROWS,
    time::say,
};

const PAGE: &str = "docs/robustness/abuse.md";
const HEAD: &str = "| Attack | Before | Memory | p99 quiet | p99 attacked | Locks lost | \
                    What it did |\n|---|---|---|---|---|---|---|\n";

/// The rows that have run.
#[derive(Clone, Default)]
pub(crate) struct Table(Arc<Mutex<Vec<(&'static Row, Ran)>>>);

// === impl Table ===

impl Table {
    pub(crate) fn record(&self, row: &'static Row, ran: Ran) -> Result<(), Failed> {
        let verdict = ran.verdict.clone();
        self.0.lock().push((row, ran));
        match verdict {
            Verdict::Held => Ok(()),
            Verdict::Void(why) => Err(format!("no run shows anything, {why}").into()),
            Verdict::Broken(why) => Err(why.into()),
        }
    }

    /// Prints it; writes it to the document too, if the environment asks for it.
    pub(crate) fn print(&self, form: Form) {
        let rows = self.0.lock();
        if rows.is_empty() {
            return;
        }
        let lines: String = rows.iter().map(|(row, ran)| line(row, ran)).collect();
        say(&format!("\n{HEAD}{lines}"));
        for (row, _) in rows.iter() {
            if let Some(why) = row.untimed {
                say(&format!("{}: times are not judged: {why}", row.name));
            }
        }
        if env::var_os("UPDATE_DOCS").is_some() {
            assert!(
                !form.is_short && form.has_cgroup,
                "UPDATE_DOCS needs the long form and a control group"
            );
            update(&rows);
        }
    }
}

/// Writes the lines of these rows into the document. A void run replaces no figures.
fn update(ran: &[(&'static Row, Ran)]) {
    let text = fs::read_to_string(document()).unwrap();
    let (before, rest) = text.split_once(HEAD).unwrap();
    let end = rest.find("\n\n").map_or(rest.len(), |at| at + 1);
    // Without any line the table ends where it begins.
    let end = if rest.starts_with('|') { end } else { 0 };
    let (old, after) = rest.split_at(end);
    let lines = ROWS.iter().filter_map(|row| {
        let marked = format!("(`{}`)", row.name);
        let old = old.split_inclusive('\n').find(|it| it.contains(&marked));
        let new = ran.iter().find(|(it, _)| it.name == row.name);
        let is_better = |ran: &Ran| old.is_none() || !matches!(ran.verdict, Verdict::Void(_));
        let new = new.filter(|(_, ran)| is_better(ran));
        new.map(|(row, ran)| line(row, ran))
            .or(old.map(str::to_owned))
    });
    let lines: String = lines.collect();
    fs::write(document(), format!("{before}{HEAD}{lines}{after}")).unwrap();
}

/// A table that lacks a row is an old one.
pub(crate) fn every_row_is_documented() -> Result<(), Failed> {
    let text = fs::read_to_string(document()).unwrap();
    let is_missing = |row: &&Row| !text.contains(&format!("| {} (`{}`) |", row.text, row.name));
    let missing: Vec<_> = ROWS.iter().filter(is_missing).map(|it| it.name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("{PAGE} lacks {missing:?}: UPDATE_DOCS=1").into())
}

fn document() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(PAGE)
}

fn line(row: &Row, ran: &Ran) -> String {
    let Ran { figures, verdict } = ran;
    let mut line = format!("| {} (`{}`) | {} |", row.text, row.name, row.before);
    match figures.memory {
        None => line.push_str(" killed |"),
        Some(memory) => write!(line, " {} |", Mib(memory)).unwrap(),
    }
    let (quiet, attacked) = (Millis(figures.quiet.p99), Millis(figures.attacked.p99));
    let lost = u32::from(figures.lost.is_some());
    write!(line, " {quiet} | {attacked} | {lost} |").unwrap();
    let (Ok(did) | Err(did)) = &figures.did;
    let marked = match verdict {
        Verdict::Held => "",
        Verdict::Void(_) => "**void**; ",
        Verdict::Broken(_) => "**fails**; ",
    };
    writeln!(line, " {marked}{did} |").unwrap();
    line
}
