//! Every promise has a test or a story that names its number; those that hold on every store have a
//! story that every store runs.

use std::collections::BTreeSet;

use crate::source::{Rust, rust_below, words};

/// The numbers of the promises.
fn promised() -> BTreeSet<u32> {
    (1..=30).collect()
}

#[test]
fn every_promise_has_a_test_that_names_it() {
    let files = rust_below("tests/").into_iter().chain(rust_below("src/"));
    let tested: BTreeSet<u32> = files
        .flat_map(|file| {
            let code = Rust::parse(&file.text).code;
            let stories = told(&code).into_iter().flat_map(numbers);
            tested(&code).into_iter().chain(stories.collect::<Vec<_>>())
        })
        .collect();
    let missing: Vec<_> = promised().difference(&tested).copied().collect();
    assert!(
        missing.is_empty(),
        "no test is called mission_<n>_… for n of {missing:?}"
    );
}

/// The numbers in the names of the test functions of some code.
fn tested(code: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let name = code[at + 3..].split('(').next().unwrap_or_default();
        if is_test(&code[..at]) {
            found.extend(numbers(name));
        }
    }
    found
}

/// Whether the attributes right before a function make it a test.
pub(crate) fn is_test(before: &str) -> bool {
    let signature = before.rsplit(['}', ';', '{']).next().unwrap_or_default();
    signature
        .lines()
        .map(str::trim)
        .any(|line| line.starts_with("#[") && line.contains("test"))
}

/// Of `mission_3_and_8_only_the_holder`: 3 and 8.
fn numbers(name: &str) -> Vec<u32> {
    let Some((before, mut rest)) = name.split_once("mission_") else {
        return Vec::new();
    };
    if !before.is_empty() && !before.ends_with('_') {
        return Vec::new();
    }
    let mut found = Vec::new();
    while let Some((digits, after)) = rest.split_once('_') {
        let Ok(number) = digits.parse() else { break };
        found.push(number);
        let Some(next) = after.strip_prefix("and_") else {
            break;
        };
        rest = next;
    }
    found
}

/// The lines that hold on every store. The fifth is about a majority of several.
fn on_every_store() -> BTreeSet<u32> {
    (1..=4).chain(6..=19).collect()
}

#[test]
fn every_line_up_to_19_has_a_story_and_every_store_runs_them() {
    let files = rust_below("tests/");
    let text = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        file.expect(path).text.as_str()
    };
    let code = Rust::parse(text("tests/process/on_every_store/mod.rs")).code;
    let told: BTreeSet<u32> = told(&code).into_iter().flat_map(numbers).collect();
    let missing: Vec<_> = on_every_store().difference(&told).copied().collect();
    assert!(missing.is_empty(), "no story of {missing:?}");
    let stores = variants(&Rust::parse(text("tests/testkit/stores.rs")).code, "Store");
    assert!(stores.len() >= 4, "{stores:?}");
    let silent: Vec<_> = stores
        .into_iter()
        .filter(|store| !runs_all(&code, store))
        .collect();
    assert!(silent.is_empty(), "no test runs the stories on {silent:?}");
}

/// The functions in the table of stories.
fn told(code: &str) -> Vec<&str> {
    let table = code.split("stories![").nth(1).unwrap_or_default();
    let table = table.split(']').next().unwrap_or_default();
    words(table)
        .filter(|word| word.starts_with("mission_"))
        .collect()
}

/// The names in an enum without values.
fn variants(code: &str, name: &str) -> Vec<String> {
    let body = code.split(&format!("enum {name} {{")).nth(1);
    let body = body.unwrap_or_default().split('}').next();
    words(body.unwrap_or_default()).map(str::to_owned).collect()
}

/// Whether there is a test that has all stories told on a store, and is named after it.
fn runs_all(code: &str, store: &str) -> bool {
    let name = format!("fn mission_1_to_19_on_{}()", store.to_lowercase());
    let Some((before, after)) = code.split_once(&name) else {
        return false;
    };
    let body = after.split('}').next().unwrap_or_default();
    let calls = format!("all_hold_on(Store::{store}).await");
    is_test(before) && body.contains(&calls)
}

#[test]
fn stories_and_stores_are_read() {
    let code = "const X: [(&str, Story); 2] = stories![a::mission_3_and_8_x, b::other, \
        c::mission_9_y,];\n\
        #[tokio::test]\nasync fn mission_1_to_19_on_one() {\n all_hold_on(Store::One).await;\n}\n\
        async fn mission_1_to_19_on_two() { all_hold_on(Store::Two).await; }\n\
        #[tokio::test]\n\
        async fn mission_1_to_19_on_three() {\n all_hold_on(Store::One).await;\n}\n";
    assert_eq!(told(code), ["mission_3_and_8_x", "mission_9_y"]);
    assert!(runs_all(code, "One"));
    for other in ["Two", "Three", "Four"] {
        assert!(!runs_all(code, other), "{other}");
    }
    let stores = "enum Other { A }\nenum Store { One, Two, }\n";
    assert_eq!(variants(stores, "Store"), ["One", "Two"]);
}

#[test]
fn names_of_tests_are_read() {
    assert_eq!(numbers("mission_14_it_stays"), [14]);
    assert_eq!(numbers("mission_3_and_8_only_the_holder"), [3, 8]);
    assert_eq!(numbers("mission_1_and_2_and_30_x"), [1, 2, 30]);
    assert_eq!(numbers("mission_29_of_100_callers"), [29]);
    assert_eq!(numbers("mission_3_and_more"), [3]);
    for other in [
        "mission_",
        "mission_x_1",
        "mission_7",
        "submission_7_x",
        "remission",
    ] {
        assert_eq!(numbers(other), [0; 0], "{other}");
    }
}

#[test]
fn only_tests_count() {
    let attribute = "#[tokio::test(start_paused = true)]\n#[expect(x)]\nasync ";
    assert_eq!(tested(&format!("{attribute}fn mission_4_x() {{}}")), [4]);
    assert_eq!(
        tested("#[test]\nfn mission_5_x() {}\nfn mission_6_helper() {}"),
        [5]
    );
    assert!(promised().contains(&22) && promised().len() == 30);
}
