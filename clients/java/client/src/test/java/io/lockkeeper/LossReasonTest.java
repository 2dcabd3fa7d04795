package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.lockkeeper.v1.LostReason;
import org.junit.jupiter.api.Test;

/** The names of the reasons are those of the protocol. */
final class LossReasonTest {

    @Test
    void everyReasonHasItsName() {
        for (LostReason reason : LostReason.values()) {
            if (reason != LostReason.UNRECOGNIZED) {
                assertEquals(reason.name(), "LOST_REASON_" + LossReason.of(reason));
            }
        }
        assertEquals(LossReason.UNSPECIFIED, LossReason.of(LostReason.UNRECOGNIZED));
    }
}
