//! The measures of the code: lines of 100 columns, files of 450 lines, functions of 70.

use crate::{
    expect_none,
    source::{File, Rust, is_word, rust_below},
};

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 450;
const FUNCTION_LINES_MAX: usize = 70;

/// Where the measures hold, and what is not written by hand.
const ROOTS: [&str; 2] = ["src/", "tests/"];
const GENERATED: &str = "/generated/";

#[test]
fn lines_files_and_functions_keep_their_measures() {
    let files = ROOTS.iter().flat_map(|root| rust_below(root));
    let files = files.filter(|file| !file.path.contains(GENERATED));
    let problems: Vec<_> = files.flat_map(|file| problems(&file)).collect();
    expect_none(&problems);
}

fn problems(file: &File) -> Vec<String> {
    let (path, text) = (&file.path, &file.text);
    let wide = text.lines().zip(1..).filter_map(|(line, number)| {
        let columns = line.chars().count();
        let is_wide = columns > COLUMNS_MAX;
        is_wide.then(|| format!("{path}:{number}: {columns} columns"))
    });
    let lines = text.lines().count();
    let is_long = lines > LINES_MAX;
    let long = is_long.then(|| format!("{path}: {lines} lines"));
    let functions = functions(text).into_iter().filter_map(|(name, lines)| {
        let is_long = lines > FUNCTION_LINES_MAX;
        is_long.then(|| format!("{path}: fn {name} has {lines} lines"))
    });
    wide.chain(long).chain(functions).collect()
}

/// Names and lines of functions, from `fn` to the closing brace; those of macros are not looked at.
fn functions(text: &str) -> Vec<(String, usize)> {
    let code = Rust::parse(text).code;
    let starts = code.match_indices("fn ");
    let starts = starts.filter(|(at, _)| !code[..*at].ends_with(is_word));
    let functions = starts.filter_map(|(at, _)| {
        let name = code[at + 3..].split(|it| !is_word(it)).next()?;
        let lines = code[at..at + length(&code[at..])?].lines().count();
        (!name.is_empty()).then(|| (name.to_owned(), lines))
    });
    functions.collect()
}

/// From `fn` to the brace that closes its body, if it has one.
fn length(code: &str) -> Option<usize> {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (at, letter) in code.char_indices() {
        match letter {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.checked_sub(1)?,
            ';' if braces == 0 && others == 0 => return None,
            '{' => braces += 1,
            '}' if braces == 1 => return Some(at + 1),
            '}' => braces = braces.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

#[test]
fn what_is_too_long_is_found() {
    let found = |text: &str| problems(&File::new("tests/a.rs", text));
    let wide = format!("// {}\n", "é".repeat(98));
    assert_eq!(found(&wide), ["tests/a.rs:1: 101 columns"]);
    assert_eq!(found(&wide[..wide.len() - 3]), [""; 0]);
    assert_eq!(found(&"\n".repeat(451)), ["tests/a.rs: 451 lines"]);
    let body = |lines: usize| format!("fn a(b: [u8; 2]) {{{}}}\n", "\n".repeat(lines));
    assert_eq!(found(&body(69)), [""; 0]);
    let long = ["tests/a.rs: fn a has 71 lines"];
    assert_eq!(found(&body(70)), long);
    let commented = body(69).replacen('\n', "/* }\n*/ let s = \"{\n\"; // {\n", 1);
    assert_eq!(found(&commented), ["tests/a.rs: fn a has 72 lines"]);
    assert_eq!(
        functions("trait A {\n fn b();\n}\nfn c() {}\n"),
        [("c".to_owned(), 1)]
    );
}
