"""What the session holds, until when, and by which guards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Callable

from lockkeeper._machine.events import Asked, Effect, Extended, Failed, Granted, Lost, Message
from lockkeeper._machine.messages import (
    Request,
    is_lock,
    is_read,
    keys_of,
    release_of,
    renewal_of,
    seconds,
    token_of,
)
from lockkeeper._machine.timers import Alarm, Timers
from lockkeeper.errors import Error, LockLost, lost_reason

#: The part of `valid_for` after which a grant is renewed before its guard is delivered.
_STALE = 1 / 3

#: The part of a lease after which a grant is renewed, unless the coordinator names an interval.
RENEW_PART = 3 / 10


class Holding:
    """One grant, which several guards share if one owner acquired a lock several times."""

    __slots__ = ("asked", "grant", "guards", "id", "keys", "renew_at", "renewing", "valid_until")

    def __init__(
        self, holding_id: int, keys: list[tuple[str, ...]], grant: Message, valid_until: float
    ) -> None:
        self.id = holding_id
        self.grant = grant
        self.keys = keys
        self.valid_until = valid_until
        #: None for a lease that the request set.
        self.renew_at: float | None = None
        self.renewing = False
        #: Empty once it is being released: its loss is not reported then.
        self.guards: list[int] = []
        #: The newest request to yield.
        self.asked: Asked | None = None


class Guard:
    """What one acquire obtained."""

    __slots__ = ("grants", "holdings", "loss", "unconfirmed")

    def __init__(self, grants: Sequence[Message]) -> None:
        #: As granted, and the holding of each.
        self.grants = grants
        self.holdings: list[Holding] = []
        self.loss: LockLost | None = None
        #: The holdings without a known validity. The guard is delivered when there are none.
        self.unconfirmed: list[Holding] = []


class Grants:
    """All that the session holds."""

    def __init__(
        self,
        ids: Iterator[int],
        alarm: Alarm,
        emit: Callable[[Effect], None],
        release: Callable[[float, int], None],
        renew: Callable[[float, int, Request], None],
    ) -> None:
        """Use `release` for guards whose acquire failed, and `renew` for what is due."""
        self._ids = ids
        self._alarm = alarm
        self._emit = emit
        self._release = release
        self._renew = renew
        self._holdings: dict[int, Holding] = {}
        self._by_key: dict[tuple[str, ...], int] = {}
        self._releasing: dict[int, list[Holding]] = {}
        self.guards: dict[int, Guard] = {}
        self.timers = Timers(alarm)
        #: From `opened`.
        self.lease = 0.0
        self.renew_interval = 0.0

    def find(self, grant: Message) -> Holding | None:
        """Return the holding that a message is about."""
        return self._find(keys_of(grant))

    def _find(self, keys: list[tuple[str, ...]]) -> Holding | None:
        for key in keys:
            holding_id = self._by_key.get(key)
            if holding_id is not None:
                return self._holdings[holding_id]
        return None

    def messages(self) -> list[Message]:
        """Return every grant as last received, to be named in a resume."""
        return [holding.grant for holding in self._holdings.values()]

    # --- a guard from its grant to its release

    def add(self, now: float, sent_at: float, guard_id: int, grants: Sequence[Message]) -> None:
        """Add what an acquire obtained, and deliver its guard when its validity is known.

        Only the age of the request is known, not that of the grant.
        """
        guard = Guard(grants)
        self.guards[guard_id] = guard
        for grant in grants:
            valid_for = seconds(grant.valid_for)
            until = sent_at + valid_for
            is_stale = now - sent_at > valid_for * _STALE
            holding = self._join(now, guard_id, grant, until, is_stale)
            guard.holdings.append(holding)
            if is_stale:
                guard.unconfirmed.append(holding)
                holding.renew_at = now
            else:
                holding.renew_at = self._renew_at(sent_at, grant)
        self._deliver_if_confirmed(now, guard_id, guard)
        for holding in guard.holdings:
            self.check(now, holding, can_renew=True)

    def _join(
        self, now: float, guard_id: int, grant: Message, until: float, is_stale: bool
    ) -> Holding:
        holding = self.find(grant)
        if holding is not None and not holding.guards:
            # It is being released: this is a new grant, or one that ends as the old one would.
            self._remove(holding)
            holding = None
        if holding is None:
            # The assumption about a stale one is without effect: no guard relies on it yet.
            holding = self._new(grant, now + seconds(grant.lease) if is_stale else until)
        else:
            self._join_known(now, holding, grant, until, is_stale)
        holding.grant = grant
        holding.guards.append(guard_id)
        return holding

    def _new(self, grant: Message, until: float) -> Holding:
        holding = Holding(next(self._ids), keys_of(grant), grant, until)
        self._holdings[holding.id] = holding
        for key in holding.keys:
            self._by_key[key] = holding.id
        return holding

    def _join_known(
        self, now: float, holding: Holding, grant: Message, until: float, is_stale: bool
    ) -> None:
        """Take over what a further grant says of a holding, on which other guards may rely."""
        if self._is_awaited(holding):
            # An assumption, in place of which only a fresh answer can stand.
            holding.valid_until = max(holding.valid_until, until) if is_stale else until
        elif token_of(grant) > token_of(holding.grant) and until > now:
            # The old grant, and so its validity, has ended.
            holding.valid_until = until
            holding.asked = None
            self._tell(holding)
        else:
            holding.valid_until = max(holding.valid_until, until)

    def _is_awaited(self, holding: Holding) -> bool:
        """Tell whether all guards of a holding wait until it is confirmed."""
        return all(holding in self.guards[guard_id].unconfirmed for guard_id in holding.guards)

    def _tell(self, holding: Holding) -> None:
        """Tell the guards of a holding until when they are valid."""
        for guard_id in holding.guards:
            guard = self.guards[guard_id]
            if not guard.unconfirmed and guard.loss is None:
                self._emit(Extended(guard_id, _valid_until(guard)))

    def _deliver_if_confirmed(self, now: float, guard_id: int, guard: Guard) -> None:
        if guard.unconfirmed:
            return
        holdings = guard.holdings
        self._emit(Granted(guard_id, [it.grant for it in holdings], _valid_until(guard)))
        for holding in holdings:
            if holding.asked and holding.asked.deadline > now:
                self._emit(holding.asked._replace(guard=guard_id))

    def begin_release(self, guard_id: int, op_id: int) -> Request | None:
        """Begin to release a guard: its loss is no longer reported. Return the request, if any.

        A release names no fencing token. So it leaves out what is lost and held anew by the same
        owner: it would take the new grant.
        """
        guard = self.guards.pop(guard_id)
        for holding in guard.holdings:
            if guard_id in holding.guards:
                holding.guards.remove(guard_id)
            if not holding.guards:
                self.timers.cancel(holding.id)
        grants = [
            grant
            for grant, holding in zip(guard.grants, guard.holdings)
            if not self._is_held_anew(holding)
        ]
        if not grants:
            return None
        self._releasing[op_id] = guard.holdings
        return release_of(grants)

    def _is_held_anew(self, lost: Holding) -> bool:
        """Return whether a lock was lost, and its owner has a newer grant.

        With the same token it is a further hold of the grant, but of a reader that is unknown: the
        token is the last writer's.
        """
        current = self.find(lost.grant)
        if current is None or current is lost:
            return False
        is_newer = token_of(current.grant) > token_of(lost.grant)
        return is_newer or is_read(lost.grant)

    def end_release(self, op_id: int) -> None:
        """Forget what a release was about."""
        for holding in self._releasing.pop(op_id, []):
            if not holding.guards:
                self._remove(holding)

    def _remove(self, holding: Holding) -> None:
        self._holdings.pop(holding.id, None)
        self.timers.cancel(holding.id)
        for key in holding.keys:
            if self._by_key.get(key) == holding.id:
                del self._by_key[key]

    # --- renewals

    def _renew_at(self, sent_at: float, grant: Message) -> float | None:
        if not grant.watched:
            return None
        lease = seconds(grant.lease)
        return sent_at + (self.renew_interval if lease == self.lease else lease * RENEW_PART)

    def due(self, now: float, can_renew: bool) -> None:
        """Check the holdings whose timer has come."""
        for holding_id in self.timers.due(now):
            holding = self._holdings.get(holding_id)  # type: ignore[call-overload]
            if holding:
                self.check(now, holding, can_renew)

    def check_all(self, now: float, can_renew: bool) -> None:
        """Check all holdings: there is a new stream."""
        for holding in list(self._holdings.values()):
            self.check(now, holding, can_renew)

    def check(self, now: float, holding: Holding, can_renew: bool) -> None:
        """Renew a holding if that is due, or report its loss, and set its timer."""
        if not holding.guards:
            return
        if holding.valid_until <= now:
            self.lose(now, holding, _loss(holding.grant, "EXPIRED"))
            return
        if can_renew and not holding.renewing and holding.renew_at is not None:
            if holding.renew_at <= now:
                holding.renewing = True
                self._renew(now, holding.id, renewal_of(holding.grant, not holding.grant.watched))
            else:
                self.timers.set(holding.id, min(holding.renew_at, holding.valid_until))
                return
        self.timers.set(holding.id, holding.valid_until)

    def renewed(self, now: float, sent_at: float, grant: Message) -> None:
        """Take over the result of a renewal, or of a resume, that was sent at `sent_at`."""
        holding = self.find(grant)
        if holding is None:
            return
        if token_of(grant) < token_of(holding.grant):
            return  # The answer is late: its owner has acquired the lock anew since.
        until = sent_at + seconds(grant.valid_for)
        holding.grant = grant
        holding.renew_at = self._renew_at(sent_at, grant)
        if until > now:
            if self._is_awaited(holding) or until > holding.valid_until:
                holding.valid_until = until
                self._tell(holding)
            self._confirm(now, holding)
        self.timers.set(holding.id, now)

    def _confirm(self, now: float, holding: Holding) -> None:
        """Deliver the guards that waited for a renewal of a holding only."""
        for guard_id in holding.guards:
            guard = self.guards[guard_id]
            if holding in guard.unconfirmed:
                guard.unconfirmed.remove(holding)
                self._deliver_if_confirmed(now, guard_id, guard)

    def on_renewal_answered(self, now: float, holding_id: int, can_renew: bool) -> None:
        """Allow the next renewal of a holding."""
        holding = self._holdings.get(holding_id)
        if holding:
            holding.renewing = False
            self.check(now, holding, can_renew)

    def on_renewal_failed(self, now: float, holding_id: int, pause: float) -> None:
        """Renew a holding again after a pause: time decides whether it is lost."""
        holding = self._holdings.get(holding_id)
        if holding:
            holding.renewing = False
            holding.renew_at = now + pause
            self.check(now, holding, can_renew=True)

    def on_not_owner(self, now: float, renewal: Message, token: int, reason: str) -> None:
        """Lose what a renewal was about, unless it is a newer grant than the renewal knew."""
        holding = self.find(renewal)
        if holding and token_of(holding.grant) <= token:
            self.lose(now, holding, _loss(holding.grant, reason))

    def token(self, renewal: Message) -> int:
        """Return the fencing token of the grant that a request is about; 0 without one."""
        holding = self.find(renewal)
        return token_of(holding.grant) if holding else 0

    def is_held(self, grant: Message) -> bool:
        """Tell whether a guard holds a grant."""
        return self.find(grant) is not None

    def on_stream_ended(self) -> None:
        """Start renewals anew: the answers to those under way are lost."""
        for holding in self._holdings.values():
            holding.renewing = False

    # --- requests to yield

    def on_asked(self, now: float, notice: Message) -> None:
        """Ask the guards of a grant to yield. A notice about another grant of it is ignored."""
        holding = self.find(notice.grant)
        if holding is None or token_of(notice.grant) != token_of(holding.grant):
            return
        deadline = now + seconds(notice.within)
        name = notice.grant.name
        holding.asked = Asked(0, name, notice.by, notice.reason, deadline, notice.preempt)
        for guard_id in holding.guards:
            guard = self.guards[guard_id]
            if not guard.unconfirmed and guard.loss is None:
                self._emit(holding.asked._replace(guard=guard_id))

    # --- losses

    def on_lost(self, now: float, notice: Message) -> None:
        """Lose a grant that a notice is about, unless it is about an older grant."""
        holding = self.find(notice.grant)
        if holding is None or token_of(notice.grant) < token_of(holding.grant):
            return
        detail, left = "", 0.0
        if is_lock(notice.grant):
            detail = notice.detail
            left = max(0.0, min(seconds(notice.valid_for), holding.valid_until - now))
        self.lose(now, holding, _loss(holding.grant, lost_reason(notice.reason), detail, left))

    def lose(self, now: float, holding: Holding, loss: LockLost) -> None:
        """Report a loss to the guards of a holding."""
        self._remove(holding)
        for guard_id in list(holding.guards):
            guard = self.guards[guard_id]
            if guard.loss is not None:
                continue
            guard.loss = loss
            if guard.unconfirmed:
                # Of several locks the others are still held.
                self._emit(Failed(guard_id, guard.loss))
                self._release(now, guard_id)
            else:
                self._emit(Lost(guard_id, guard.loss))

    def lose_all(self, ended: Error) -> None:
        """Report the end of the session to all guards."""
        for guard_id, guard in self.guards.items():
            if guard.unconfirmed:
                self._emit(Failed(guard_id, ended))
            elif guard.loss is None:
                guard.loss = _loss(guard.holdings[0].grant, "UNSPECIFIED", str(ended))
                self._emit(Lost(guard_id, guard.loss))
        self.guards.clear()
        self._holdings.clear()
        self._by_key.clear()
        self.timers = Timers(self._alarm)


def _valid_until(guard: Guard) -> float:
    return min([holding.valid_until for holding in guard.holdings])


def _loss(grant: Message, reason: str, detail: str = "", valid_for: float = 0.0) -> LockLost:
    return LockLost(grant.name, reason, token_of(grant), detail, valid_for)
