package lockkeeper

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/lockkeeper/lockkeeper/clients/go/internal/machine"
)

const (
	// connectTimeout limits an attempt to connect for a call without a session.
	connectTimeout = 5 * time.Second
	// keepaliveTime is longer than any silence of a coordinator that answers ping frames. It finds
	// out about the others that are dead.
	keepaliveTime = 20 * time.Second
	// alertTimeout is how long the alert of a broken connection may take.
	alertTimeout = 100 * time.Millisecond
)

// calls are retried by gRPC; all of them are safe to retry.
const serviceConfig = `{"methodConfig": [{
	"name": [
		{"service": "lockkeeper.v1.LockService", "method": "TryAcquire"},
		{"service": "lockkeeper.v1.LockService", "method": "Release"},
		{"service": "lockkeeper.v1.LockService", "method": "Renew"},
		{"service": "lockkeeper.v1.LockService", "method": "Describe"},
		{"service": "lockkeeper.v1.LockService", "method": "CheckToken"},
		{"service": "lockkeeper.v1.LockService", "method": "Explain"},
		{"service": "lockkeeper.v1.ElectionService", "method": "Leader"}
	],
	"retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
		"retryableStatusCodes": ["UNAVAILABLE"]
	}
}]}`

// faults are what went wrong on a connection below gRPC, which gRPC only hints at.
type faults struct {
	mu sync.Mutex
	// local is a file or a value of the client that cannot be used.
	local error
	// address could not be reached, because of cause.
	address string
	cause   error
}

// connection connects to the first of some addresses that answers.
func connection(config *config, addresses []address, faults *faults) (*grpc.ClientConn, error) {
	byText := map[string]address{}
	var resolved []resolver.Address
	for _, it := range addresses {
		byText[it.text] = it
		resolved = append(resolved, resolver.Address{Addr: it.text})
	}
	builder := manual.NewBuilderWithScheme("lockkeeper")
	builder.InitialState(resolver.State{Addresses: resolved})
	dial := func(ctx context.Context, text string) (net.Conn, error) {
		return faults.dial(ctx, byText[text])
	}
	options := []grpc.DialOption{
		grpc.WithResolvers(builder),
		grpc.WithContextDialer(dial),
		grpc.WithAuthority(addresses[0].authority()),
		grpc.WithTransportCredentials(&transport{addresses[0].tls, config.tls, faults}),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.5, MaxDelay: time.Second,
			},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveTime, Timeout: keepaliveTime / 2,
		}),
		grpc.WithUserAgent("lockkeeper-go"),
	}
	if config.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(&bearer{config.token, faults}))
	}
	options = append(options, config.dialOptions...)
	conn, err := grpc.NewClient("lockkeeper:///coordinator", options...)
	if err != nil {
		return nil, &MisconfiguredError{"dial options", err}
	}
	return conn, nil
}

func (a address) authority() string {
	if a.network == "unix" {
		return a.host
	}
	return a.dial
}

// --- faults

func (f *faults) dial(ctx context.Context, to address) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, to.network, to.dial)
	if err != nil {
		f.unreachable(to, err)
		return nil, err
	}
	return &sniffer{Conn: conn, address: to, faults: f}, nil
}

func (f *faults) unreachable(at address, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.address, f.cause = at.text, cause
}

func (f *faults) setLocal(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.local = err
}

// explain says why a call failed, and with which code: a fault of the client's own counts as a
// lack of credentials.
func (f *faults) explain(err error, at address) (codes.Code, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := status.Convert(err)
	code := it.Code()
	isCoordinators := machine.ErrorInfo(it) != nil
	switch {
	case f.local != nil && !isCoordinators:
		return codes.Unauthenticated, f.local
	case isCoordinators || code != codes.Unavailable && code != codes.DeadlineExceeded:
		return code, refused(it)
	case f.cause != nil:
		return code, &UnreachableError{f.address, f.cause}
	default:
		return code, &UnreachableError{at.text, errors.New(innermost(it.Message()))}
	}
}

// innermost removes what gRPC wraps around a cause. It closes a connection that takes too long.
func innermost(message string) string {
	if strings.Contains(message, net.ErrClosed.Error()) {
		return "it did not answer in time"
	}
	if at := strings.LastIndex(message, "desc = "); at >= 0 {
		message = strings.Trim(message[at+len("desc = "):], `"`)
	}
	return message
}

// --- TLS

// transport makes connections to https:// addresses encrypted. It reads the files each time.
type transport struct {
	isTLS  bool
	files  TLS
	faults *faults
}

// ClientHandshake is that of credentials.TransportCredentials.
func (t *transport) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := raw.(*sniffer)
	if !ok || !conn.address.tls {
		return insecure.NewCredentials().ClientHandshake(ctx, authority, raw)
	}
	config, err := t.files.load(conn.address.host)
	t.faults.setLocal(err)
	if err != nil {
		return nil, nil, err
	}
	handshake := credentials.NewTLS(config).ClientHandshake
	secure, info, err := handshake(ctx, config.ServerName, conn.Conn)
	if err != nil {
		err = explainHandshake(err)
		t.faults.unreachable(conn.address, err)
		return nil, nil, err
	}
	return &sniffer{Conn: secure, address: conn.address, faults: t.faults}, info, nil
}

// explainHandshake says what a server without TLS does to a handshake.
func explainHandshake(err error) error {
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &header):
		return errors.New("it does not use TLS: the address begins with http://")
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("it refused the TLS handshake; " +
			"if it does not use TLS, the address begins with http://")
	}
	return err
}

// ServerHandshake is not used by a client.
func (t *transport) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.ErrUnsupported
}

// Info describes the connections.
func (t *transport) Info() credentials.ProtocolInfo {
	if t.isTLS {
		return credentials.ProtocolInfo{SecurityProtocol: "tls"}
	}
	return insecure.NewCredentials().Info()
}

// Clone returns a copy.
func (t *transport) Clone() credentials.TransportCredentials {
	copied := *t
	return &copied
}

// OverrideServerName is deprecated, and not used.
func (t *transport) OverrideServerName(string) error { return errors.ErrUnsupported }

func (t TLS) load(host string) (*tls.Config, error) {
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if t.ServerName != "" {
		config.ServerName = t.ServerName
	}
	if t.CAFile != "" {
		text, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, &MisconfiguredError{"CA file", err}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, misconfigured("CA file", "%s has no certificate in PEM form", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, misconfigured("client certificate",
			"it needs its key, and a key its certificate")
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, &MisconfiguredError{"client certificate", err}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// sniffer is a connection that finds the TLS alert with which a server refuses it. gRPC would
// report the broken connection that follows.
type sniffer struct {
	net.Conn
	address  address
	faults   *faults
	hasBegun atomic.Bool
}

func (s *sniffer) Read(into []byte) (int, error) {
	count, err := s.Conn.Read(into)
	if s.hasBegun.Swap(true) {
		return count, err
	}
	s.faults.unreachable(address{}, nil) // it was reached, whatever went wrong before
	var refusal *net.OpError
	switch {
	case count >= 2 && into[0] == 21 && into[1] == 3: // an alert, on a connection without TLS
		err = errors.New("it uses TLS: the address begins with https://")
		s.faults.unreachable(s.address, err)
		return 0, err
	case errors.As(err, &refusal) && refusal.Op == "remote error":
		s.faults.unreachable(s.address, refusal.Err)
	}
	return count, err
}

// Write looks for an alert that came before the connection broke.
func (s *sniffer) Write(from []byte) (int, error) {
	count, err := s.Conn.Write(from)
	if err != nil && !s.hasBegun.Load() {
		_ = s.SetReadDeadline(time.Now().Add(alertTimeout))
		_, _ = s.Read(make([]byte, 16)) // it records what it finds
	}
	return count, err
}

// --- tokens

// bearer sends a token with every call.
type bearer struct {
	token  func(context.Context) (string, error)
	faults *faults
}

// GetRequestMetadata is that of credentials.PerRPCCredentials.
func (b *bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	header, err := authorization(ctx, b.token)
	b.faults.setLocal(err)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return map[string]string{"authorization": header}, nil
}

// RequireTransportSecurity is false: the coordinator decides where it accepts tokens.
func (b *bearer) RequireTransportSecurity() bool { return false }

func authorization(
	ctx context.Context, token func(context.Context) (string, error),
) (string, error) {
	text, err := token(ctx)
	if err != nil {
		return "", &MisconfiguredError{"token", err}
	}
	isForbidden := func(it rune) bool { return it <= ' ' || it > '~' }
	if text == "" || strings.ContainsFunc(text, isForbidden) {
		return "", misconfigured("token", "it is empty or has forbidden characters")
	}
	return "Bearer " + text, nil
}
