package io.lockkeeper.conformance;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.lockkeeper.AcquireOptions;
import io.lockkeeper.LockMode;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Function;

/** A command, with its fields. */
record Command(JsonObject fields) {

    String action() {
        return text("do");
    }

    String name() {
        return text("name");
    }

    String text(String field) {
        return fields.get(field).getAsString();
    }

    int number(String field) {
        return fields.get(field).getAsInt();
    }

    Optional<String> maybeText(String field) {
        return maybe(field, JsonElement::getAsString);
    }

    Optional<Duration> maybeMillis(String field) {
        return maybe(field, JsonElement::getAsLong).map(Duration::ofMillis);
    }

    <T> Optional<T> maybe(String field, Function<JsonElement, T> read) {
        JsonElement value = fields.get(field);
        return value == null || value.isJsonNull()
                ? Optional.empty()
                : Optional.of(read.apply(value));
    }

    List<String> texts(String field) {
        return fields.getAsJsonArray(field).asList().stream()
                .map(JsonElement::getAsString)
                .toList();
    }

    AcquireOptions options() {
        AcquireOptions options = AcquireOptions.defaults();
        Optional<String> mode = maybeText("mode");
        if (mode.isPresent()) {
            options = options.mode(LockMode.valueOf(mode.get().toUpperCase(Locale.ROOT)));
        }
        options = maybeText("owner").map(options::owner).orElse(options);
        options = maybeMillis("wait_ms").map(options::waitLimit).orElse(options);
        options = maybeMillis("lease_ms").map(options::lease).orElse(options);
        options = maybeText("reason").map(options::reason).orElse(options);
        var labels = maybe("labels", JsonElement::getAsJsonObject).orElseGet(JsonObject::new);
        for (String key : labels.keySet()) {
            options = options.label(key, labels.get(key).getAsString());
        }
        return maybe("min_replica_acks", JsonElement::getAsInt)
                .map(options::minReplicaAcks)
                .orElse(options);
    }
}
