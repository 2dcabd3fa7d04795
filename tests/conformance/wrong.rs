//! Clients with one rule broken: the kit must fail each. `wrong.py` of the Python client has them.

use std::sync::LazyLock;

use anyhow::{Result, bail};

use crate::{
    scripted::{SCENARIOS, Scenario},
    trial::{self, Language},
};

/// Each wrong client, and the scenarios that have to catch it.
pub(crate) const CLIENTS: &[(&str, &[&str])] = &[
    (
        "validity-from-the-answer",
        &["validity::validity_counts_from_the_request"],
    ),
    (
        "new-request-id",
        &[
            "retries::an_unavailable_store_is_tried_again",
            "resume::an_acquire_is_sent_again",
        ],
    ),
    ("half-close", &["ending::an_idle_stream_is_not_closed"]),
    (
        "lost-ignored",
        &[
            "loss::a_loss_is_seen_at_once",
            "loss::a_loss_has_its_reason",
        ],
    ),
    (
        "resume-without-a-grant",
        &[
            "resume::what_is_held_is_named",
            "resume::an_acquire_is_sent_again",
        ],
    ),
    (
        "owner-used-twice",
        &["answers::each_acquire_has_an_owner_of_its_own"],
    ),
    (
        "token-as-a-double",
        &["answers::a_grant_with_a_large_token_is_exact"],
    ),
    (
        "cancel-without-reading",
        &["ending::a_grant_after_a_cancel_is_released"],
    ),
    (
        "renewals-from-the-answer",
        &["validity::renewals_count_from_the_request"],
    ),
    ("no-jitter", &["resume::attempts_are_spread"]),
    (
        "reopened-silently",
        &["resume::no_session_is_opened_silently"],
    ),
    ("released-twice", &["ending::a_guard_is_released_once"]),
    (
        "term-repeated",
        &["feeds::an_observer_goes_on_after_what_it_has_seen"],
    ),
    (
        "gap-hidden",
        &[
            "feeds::an_observer_that_saw_no_term_tells_a_gap",
            "feeds::a_watch_that_goes_on_tells_a_gap",
        ],
    ),
];

static PYTHON: LazyLock<Language> = LazyLock::new(|| Language::named("python"));

/// Fails unless each of these scenarios fails a wrong client, and says what caught it.
#[expect(
    clippy::print_stderr,
    reason = "which scenario caught it is the result"
)]
pub(crate) fn is_caught(client: &str, by: &[&str]) -> Result<()> {
    let wrong = PYTHON.broken(client);
    for name in by {
        match trial::scripted(&wrong, scenario(name)?) {
            Ok(()) => bail!("{name} does not catch {client}"),
            Err(failure) => eprintln!("{client} is caught by {name}: {failure:#}"),
        }
    }
    Ok(())
}

fn scenario(wanted: &str) -> Result<Scenario> {
    let found = SCENARIOS.iter().find(|(name, _)| *name == wanted);
    match found {
        Some((_, scenario)) => Ok(*scenario),
        None => bail!("there is no scenario {wanted}"),
    }
}
