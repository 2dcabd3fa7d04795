//! Scenarios with scripted coordinators.

mod answers;
mod ending;
mod feeds;
mod hand_over;
mod loss;
mod negotiation;
mod opening;
mod resume;
mod retries;
mod validity;
mod waits;

use std::{future::Future, pin::Pin};

use anyhow::Result;

use crate::stage::Stage;

/// What a scenario does on its stage.
pub(crate) type Scenario = for<'a> fn(&'a mut Stage) -> Playing<'a>;

type Playing<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

macro_rules! scenarios {
    ($($module:ident: $($name:ident),*;)*) => {
        /// All scenarios by name.
        pub(crate) const SCENARIOS: &[(&str, Scenario)] = &[$($((
            concat!(stringify!($module), "::", stringify!($name)),
            |stage| Box::pin($module::$name(stage)),
        ),)*)*];
    };
}

scenarios! {
    opening: a_session_is_opened_as_asked_for, the_next_endpoint_is_tried,
        a_refusal_ends_the_attempt, nobody_there_is_named, a_silent_coordinator_is_given_up,
        missing_credentials_are_a_refusal, a_token_is_sent, a_token_file_is_read_again,
        a_certificate_of_another_authority_is_refused, a_known_authority_is_trusted,
        plain_text_to_a_tls_port_fails;
    answers: a_grant_with_a_large_token_is_exact, not_granted_is_not_an_error_of_the_session,
        waiting_does_not_end_a_wait, answers_out_of_order_reach_their_callers,
        an_answer_twice_counts_once, an_unknown_answer_is_ignored, an_empty_frame_is_ignored,
        each_acquire_has_an_owner_of_its_own, an_owner_is_used_as_given,
        the_options_of_an_acquire_are_sent, a_try_that_fails_is_not_granted,
        several_locks_are_one_guard, several_locks_that_are_busy_are_not_granted,
        permits_are_acquired_and_released, a_latch_opens, a_latch_that_stays_closed,
        two_hundred_acquires_at_once,
        an_operation_above_the_limit_is_not_sent,
        an_operation_that_ended_the_stream_does_not_end_the_next;
    retries: an_unavailable_store_is_tried_again, an_unknown_outcome_is_tried_again,
        a_draining_coordinator_is_tried_again, patience_ends_with_the_lease,
        an_invalid_request_is_not_tried_again, an_undone_grant_is_not_tried_again,
        a_release_is_tried_again, a_release_of_nothing_fails,
        an_answer_during_the_pause_is_ignored;
    validity: validity_counts_from_the_request, a_grant_is_renewed_in_time,
        renewals_count_from_the_request, a_renewal_without_an_answer_ends_with_the_lease,
        a_renewal_of_a_lock_that_another_holds, a_renewal_that_fails_is_repeated,
        a_late_grant_is_renewed_first, a_released_grant_is_not_renewed,
        a_lease_of_the_request_is_not_renewed, a_renewal_by_the_user,
        a_late_grant_of_a_shared_lock_prolongs_nothing;
    loss: a_loss_is_seen_at_once, a_loss_has_its_reason, a_lost_lock_cannot_be_released,
        the_loss_of_an_older_grant_is_ignored, the_loss_of_another_lock_is_ignored,
        a_loss_during_the_release_is_not_reported, at_risk_is_not_a_loss, a_loss_is_reported_once,
        one_of_several_locks_is_lost, an_exclusive_hold_and_a_fair_one_are_one_grant,
        a_handler_can_acquire_anew, a_handler_can_acquire_anew_when_the_session_has_ended;
    resume: what_is_held_is_named, validity_counts_from_the_resume, what_is_not_confirmed_is_lost,
        an_acquire_is_sent_again, an_acquire_that_was_released_since_gets_a_new_id,
        a_release_is_sent_again, permits_are_acquired_anew, a_half_held_set_of_locks_is_released,
        the_next_endpoint_may_know_the_session, a_session_that_nobody_knows_has_ended,
        missing_credentials_may_come_back, nobody_for_a_whole_lease_ends_the_session,
        attempts_are_spread, a_silent_stream_is_left, silence_is_broken_by_pings,
        a_coordinator_that_goes_away_is_left, the_last_answers_of_one_that_goes_away_count,
        what_is_asked_meanwhile_is_sent_later, a_slow_resume_is_left,
        no_session_is_opened_silently, a_lock_of_another_guard_is_not_released,
        pauses_grow_while_streams_carry_nothing;
    ending: a_cancel_is_sent, a_grant_after_a_cancel_is_released, a_cancel_before_sending,
        close_ends_the_stream, close_without_an_answer_ends_too, close_ends_the_waits,
        an_idle_stream_is_not_closed, a_guard_is_released_once, the_end_of_input_closes,
        close_is_sent_to_the_next_coordinator;
    negotiation: a_request_to_yield_is_seen_once, a_request_to_an_older_grant_is_ignored,
        a_note_is_sent, a_note_over_the_limit_is_refused, a_leader_proclaims_with_its_term,
        a_former_leader_cannot_proclaim;
    waits: a_wait_that_was_never_sent_ends_in_time, a_wait_whose_stream_broke_ends_in_time,
        a_grant_after_the_end_of_a_wait_is_released, on_a_stream_the_coordinator_ends_a_wait,
        a_wait_on_a_silent_stream_ends_soon;
    feeds: an_observer_is_told_everything_in_order, an_observer_goes_on_after_what_it_has_seen,
        an_observer_that_saw_no_term_tells_a_gap, an_observer_that_is_refused_ends,
        a_cancelled_observer_ends_its_call, a_watch_is_told_everything_in_order,
        a_watch_that_goes_on_tells_a_gap, a_wait_ends_when_the_lock_is_free,
        a_wait_goes_on_with_what_is_left, a_wait_that_is_over_says_so,
        a_cancelled_wait_ends_its_call, a_watch_that_its_peer_ends_goes_on,
        an_observer_whose_peer_ends_goes_on, a_wait_that_its_peer_ends_goes_on;
    hand_over: a_claim_is_a_guard, a_claim_that_is_refused_is_not_repeated, the_giver_is_told;
}
