//! Clients with one rule broken: the kit must fail each. `wrong.py` of the Python client has them.

use std::sync::LazyLock;

use anyhow::{Context as _, Result, bail, ensure};

use crate::{
    scripted::{SCENARIOS, Scenario},
    trial::{self, Language},
};

/// Each wrong client, the scenarios that have to catch it, and what they have to say of it.
pub(crate) const CLIENTS: &[(&str, Catchers)] = &[
    (
        "validity-from-the-answer",
        &[("validity::validity_counts_from_the_request", "left: 2.")],
    ),
    (
        "new-request-id",
        &[
            (
                "retries::an_unavailable_store_is_tried_again",
                "a new request id",
            ),
            ("resume::an_acquire_is_sent_again", "a new request id"),
        ],
    ),
    (
        "half-close",
        &[(
            "ending::an_idle_stream_is_not_closed",
            "the client ended the stream",
        )],
    ),
    (
        "no-half-close",
        &[(
            "ending::close_ends_the_stream",
            "no coordinator has confirmed that",
        )],
    ),
    (
        "half-close-ends-it",
        &[("resume::what_is_held_is_named", "sends_close is not set")],
    ),
    (
        "lost-ignored",
        &[
            ("loss::a_loss_is_seen_at_once", "the loss of g did not come"),
            (
                "loss::a_loss_has_its_reason",
                "the loss of EXPIRED did not come",
            ),
        ],
    ),
    (
        "resume-without-a-grant",
        &[
            ("resume::what_is_held_is_named", NOTHING_NAMED),
            ("resume::an_acquire_is_sent_again", NOTHING_NAMED),
        ],
    ),
    (
        "owner-used-twice",
        &[(
            "answers::each_acquire_has_an_owner_of_its_own",
            "two tasks would share the lock",
        )],
    ),
    (
        "token-as-a-double",
        &[(
            "answers::a_grant_with_a_large_token_is_exact",
            "18446744073709551616",
        )],
    ),
    (
        "cancel-without-reading",
        &[(
            "ending::a_grant_after_a_cancel_is_released",
            "Release did not come",
        )],
    ),
    (
        "renewals-from-the-answer",
        &[(
            "validity::renewals_count_from_the_request",
            "renewed after 1.",
        )],
    ),
    ("no-jitter", &[("resume::attempts_are_spread", "no jitter")]),
    (
        "reopened-silently",
        &[(
            "resume::no_session_is_opened_silently",
            "the session's state ended did not come",
        )],
    ),
    (
        "released-twice",
        &[("ending::a_guard_is_released_once", "unexpected: Release(")],
    ),
    (
        "term-repeated",
        &[(
            "feeds::an_observer_goes_on_after_what_it_has_seen",
            "it goes on after 6",
        )],
    ),
    (
        "gap-hidden",
        &[
            (
                "feeds::an_observer_that_saw_no_term_tells_a_gap",
                r#"was told no more than ["no_leader", "leader 3"#,
            ),
            (
                "feeds::a_watch_that_goes_on_tells_a_gap",
                r#"was told no more than ["state", "state"]"#,
            ),
        ],
    ),
    (
        "oversized-sent",
        &[
            (
                "answers::an_operation_above_the_limit_is_not_sent",
                "an answer to command 2 did not come",
            ),
            (
                "answers::an_operation_that_ended_the_stream_does_not_end_the_next",
                "misconfigured expected",
            ),
        ],
    ),
    (
        "modes-apart",
        &[(
            "loss::an_exclusive_hold_and_a_fair_one_are_one_grant",
            "one named grant expected",
        )],
    ),
    (
        "backoff-forgotten",
        &[(
            "resume::pauses_grow_while_streams_carry_nothing",
            "in round",
        )],
    ),
    (
        "deaf-in-a-handler",
        &[(
            "loss::a_handler_can_acquire_anew",
            "the acquire of the handler did not come",
        )],
    ),
    (
        "ended-session-kept",
        &[(
            "loss::a_handler_can_acquire_anew_when_the_session_has_ended",
            "nobody comes",
        )],
    ),
    (
        "end-of-a-feed-believed",
        &[
            (
                "feeds::a_watch_that_its_peer_ends_goes_on",
                "WatchLock does not come",
            ),
            (
                "feeds::an_observer_whose_peer_ends_goes_on",
                "Observe does not come",
            ),
            (
                "feeds::a_wait_that_its_peer_ends_goes_on",
                "AwaitFree does not come",
            ),
        ],
    ),
];

const NOTHING_NAMED: &str = "one named grant expected: []";

/// What no broken rule touches: a client that fails it does not run at all.
const CONTROL: &str = "answers::an_empty_frame_is_ignored";

/// The scenarios that catch a client, and what they say of it.
type Catchers = &'static [(&'static str, &'static str)];

static PYTHON: LazyLock<Language> = LazyLock::new(|| Language::named("python"));

/// Fails unless a wrong client runs, and each of these scenarios says what is wrong with it.
pub(crate) fn is_caught(client: &str, by: Catchers) -> Result<()> {
    let wrong = PYTHON.broken(client);
    let control = trial::scripted(&wrong, scenario(CONTROL)?);
    control.with_context(|| format!("{client} does not run"))?;
    for (name, says) in by {
        let caught = trial::scripted_fails(&wrong, scenario(name)?, says);
        caught.with_context(|| format!("{name} does not catch {client}"))?;
    }
    Ok(())
}

/// A client that does not run, and one that fails in another way, are not caught.
pub(crate) fn only_what_is_wrong_is_caught() -> Result<()> {
    let by: Catchers = &[(
        "answers::each_acquire_has_an_owner_of_its_own",
        "no such text",
    )];
    let why = [
        ("no-such-rule", "does not run"),
        ("owner-used-twice", "no such text"),
    ];
    for (client, why) in why {
        let Err(failure) = is_caught(client, by) else {
            bail!("{client} is caught");
        };
        let failure = format!("{failure:#}");
        ensure!(failure.contains(why), "{why} expected: {failure}");
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
