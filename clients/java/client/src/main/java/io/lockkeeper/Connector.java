package io.lockkeeper;

import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.stub.AbstractStub;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** How to reach the coordinators. {@code token} is null if there is none. */
record Connector(
        List<Address> addresses, Tls tls, Token token, List<ClientInterceptor> interceptors) {

    /** Finds a dead peer on a connection that carries calls; gRPC allows no shorter interval. */
    private static final long KEEPALIVE_SECONDS = 10;

    /** Fails if a file or the token cannot be used. */
    void check() {
        if (addresses.stream().anyMatch(Address::isTls)) {
            tls.credentials();
        }
        if (token != null) {
            token.check();
        }
    }

    /** A channel that connects when its first call begins. Reads the files. */
    ManagedChannel connect(Address address) {
        ChannelCredentials credentials =
                address.isTls() ? tls.credentials() : InsecureChannelCredentials.create();
        ManagedChannelBuilder<?> builder =
                Grpc.newChannelBuilderForAddress(address.host(), address.port(), credentials)
                        .intercept(interceptors)
                        .keepAliveTime(KEEPALIVE_SECONDS, TimeUnit.SECONDS)
                        .disableRetry();
        if (address.isTls() && tls.serverName() != null) {
            builder.overrideAuthority(tls.serverName());
        }
        return builder.build();
    }

    <S extends AbstractStub<S>> S authorized(S stub) {
        return token == null ? stub : stub.withCallCredentials(token);
    }
}
