use lockkeeper_store::script::Mode;

use super::*;
use crate::testing::{Faults, acquire, config, granted, owner, start_faulty};

/// A coordinator on a store with locks of these names.
async fn with_locks(names: &[&str]) -> (Faults, Coordinator) {
    let (faults, coordinator, _store) = start_faulty(config());
    for name in names {
        let request = acquire(name, Mode::Exclusive, &owner("x"));
        granted(&coordinator, &request).await.take().unwrap();
    }
    (faults, coordinator)
}

/// The names of each page.
async fn pages(coordinator: &Coordinator, part: &str, page_size: usize) -> Vec<Vec<String>> {
    let (mut pages, mut token) = (Vec::new(), String::new());
    for _ in 0..20 {
        let page = coordinator.search_locks("", part, page_size, &token).await;
        let page = page.unwrap();
        let named = page.locks.iter().map(|seen| match seen {
            LockSeen::Lock(_, seen) => seen.name.to_string(),
            other => panic!("{other:?}"),
        });
        pages.push(named.collect());
        match page.next {
            Some(next) => token = next,
            None => return pages,
        }
    }
    panic!("no end: {pages:?}")
}

fn sorted(pages: &[Vec<String>]) -> Vec<String> {
    let mut names = pages.concat();
    names.sort();
    names
}

const NAMES: [&str; 5] = ["a", "ab", "b", "bc", "c"];

#[tokio::test(start_paused = true)]
async fn a_page_that_takes_all_names_is_the_last() {
    let (_faults, coordinator) = with_locks(&NAMES).await;
    for size in [5, 6] {
        let pages = pages(&coordinator, "", size).await;
        assert_eq!(pages.len(), 1, "{pages:?}");
        assert_eq!(sorted(&pages), NAMES);
    }
}

#[tokio::test(start_paused = true)]
async fn names_of_one_step_fill_several_pages_each_once() {
    let (faults, coordinator) = with_locks(&NAMES).await;
    // No step of this store is smaller than all of its keys.
    faults.scan_within(1000, 1000);
    let pages = pages(&coordinator, "", 2).await;
    let sizes: Vec<_> = pages.iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 2, 1]);
    assert_eq!(sorted(&pages), NAMES);
    let first = &faults.scans()[..6];
    assert_eq!(
        first,
        [500, 125, 31, 7, 1, 1],
        "steps shrink before a page ends within one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_page_takes_as_many_steps_as_fill_it() {
    let (faults, coordinator) = with_locks(&NAMES).await;
    faults.scan_within(1, 1);
    let pages = pages(&coordinator, "", 3).await;
    assert_eq!(pages[0].len(), 3);
    assert_eq!(sorted(&pages), NAMES);
}

#[tokio::test(start_paused = true)]
async fn a_search_finds_the_names_with_a_part() {
    let (_faults, coordinator) = with_locks(&NAMES).await;
    for (part, expected) in [("b", &["ab", "b", "bc"][..]), ("bc", &["bc"]), ("d", &[])] {
        assert_eq!(
            sorted(&pages(&coordinator, part, 0).await),
            expected,
            "{part}"
        );
    }
}

#[test]
fn a_page_token_survives_and_others_are_refused() {
    let place = PageCursor {
        behind: "a/b ü".to_owned(),
        ..PageCursor::default()
    };
    let read = PageCursor::from_token(&place.to_token()).unwrap();
    assert_eq!((read.cursor, read.behind), (place.cursor, place.behind));
    for bad in ["x", "!", "MA", "MC4wLjA"] {
        assert!(PageCursor::from_token(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_reason_is_one_line_for_people() {
    assert!(Reason::parse("the host burns").is_ok());
    for bad in ["", "  ", "a\nb", "a\x1b[0m", &"x".repeat(257)] {
        assert!(Reason::parse(bad).is_err(), "{bad:?}");
    }
}
