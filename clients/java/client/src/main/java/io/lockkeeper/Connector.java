package io.lockkeeper;

import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.ManagedChannelProvider;
import io.grpc.stub.AbstractStub;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** How to reach the coordinators. {@code token} is null if there is none. */
record Connector(
        List<Address> addresses, Tls tls, Token token, List<ClientInterceptor> interceptors) {

    /** Finds a dead peer on a connection that carries calls; gRPC allows no shorter interval. */
    private static final long KEEPALIVE_SECONDS = 10;

    /**
     * Fails if a file or the token cannot be used. Also loads what a connection needs, which takes
     * its time once.
     */
    void check() {
        Address secure = addresses.stream().filter(Address::isTls).findFirst().orElse(null);
        connect(secure == null ? addresses.get(0) : secure).shutdownNow();
        if (token != null) {
            token.check();
        }
    }

    /** A channel that connects when its first call begins. Reads the files. */
    ManagedChannel connect(Address address) {
        ChannelCredentials credentials =
                address.isTls() ? tls.credentials() : InsecureChannelCredentials.create();
        ManagedChannelBuilder<?> builder =
                builder(address, credentials)
                        .intercept(interceptors)
                        .keepAliveTime(KEEPALIVE_SECONDS, TimeUnit.SECONDS)
                        .disableRetry();
        if (address.isTls() && tls.serverName() != null) {
            builder.overrideAuthority(tls.serverName());
        }
        return builder.build();
    }

    private static ManagedChannelBuilder<?> builder(
            Address address, ChannelCredentials credentials) {
        try {
            if (address.socket() != null) {
                // gRPC would send the path, which is no valid authority of HTTP/2.
                return Grpc.newChannelBuilder(address.toString(), credentials)
                        .overrideAuthority(address.host());
            }
            return Grpc.newChannelBuilderForAddress(address.host(), address.port(), credentials);
        } catch (IllegalArgumentException unusable) {
            throw new MisconfiguredException("tls: " + unusable.getMessage());
        } catch (ManagedChannelProvider.ProviderNotFoundException unknown) {
            String message = "endpoint: " + address + ": Unix sockets need Linux";
            throw new MisconfiguredException(message);
        }
    }

    <S extends AbstractStub<S>> S authorized(S stub) {
        return token == null ? stub : stub.withCallCredentials(token);
    }
}
