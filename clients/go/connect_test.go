package lockkeeper_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// unreachableMax is the stated time, and some for a busy machine.
const unreachableMax = 6*time.Second + 2*time.Second

func TestMisconfigured(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, test := range map[string]struct {
		endpoints []string
		option    lockkeeper.Option
		field     string
	}{
		"no endpoint":    {nil, nil, "endpoints"},
		"another scheme": {[]string{"redis://a:1"}, nil, "endpoint redis://a:1"},
		"no port":        {[]string{"http://a"}, nil, "endpoint http://a"},
		"a path":         {[]string{"http://a:1/b"}, nil, "endpoint http://a:1/b"},
		"half a socket":  {[]string{"unix://a"}, nil, "endpoint unix://a"},
		"lease":          {[]string{"a:1"}, lockkeeper.WithSessionLease(-1), "session lease"},
		"token":          {[]string{"a:1"}, lockkeeper.WithToken("a\nb"), "token"},
		"no token":       {[]string{"a:1"}, lockkeeper.WithTokenFile(missing), "token"},
		"CA": {
			[]string{"https://a:1"}, lockkeeper.WithTLS(lockkeeper.TLS{CAFile: missing}), "CA file",
		},
		"half a certificate": {
			[]string{"https://a:1"}, lockkeeper.WithTLS(lockkeeper.TLS{CertFile: missing}),
			"client certificate",
		},
	} {
		options := []lockkeeper.Option{lockkeeper.WithClientName("test")}
		if test.option != nil {
			options = append(options, test.option)
		}
		_, err := lockkeeper.Dial(t.Context(), test.endpoints, options...)
		var misconfigured *lockkeeper.MisconfiguredError
		if !errors.As(err, &misconfigured) || misconfigured.Field != test.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	client := dial(t, "a:1")
	_, err := client.TryLock(t.Context(), "a", lockkeeper.WithWaitTimeout(time.Second))
	if _, isMisconfigured := errors.AsType[*lockkeeper.MisconfiguredError](err); !isMisconfigured {
		t.Errorf("a try that waits: %v", err)
	}
}

// silent is the address of a server that accepts connections and never answers.
func silent(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return "http://" + listener.Addr().String()
}

// isUnreachable checks that an error is one line that names the address, and came in time.
func isUnreachable(t *testing.T, err error, address, cause string, begun time.Time) {
	t.Helper()
	unreachable, ok := errors.AsType[*lockkeeper.UnreachableError](err)
	text := err.Error()
	if !ok || unreachable.Address != address || !strings.Contains(text, address) ||
		!strings.Contains(text, cause) || strings.Contains(text, "\n") || len(text) > 250 {
		t.Fatalf("%v", err)
	}
	if after := time.Since(begun); after > unreachableMax {
		t.Fatalf("after %v", after)
	}
}

func TestUnreachable(t *testing.T) {
	for cause, address := range map[string]string{
		"refused": "http://127.0.0.1:" + freePort(t),
		"answer":  silent(t),
		"no such": "unix://" + filepath.Join(t.TempDir(), "socket"),
	} {
		client := dial(t, address)
		begun := time.Now()
		_, err := client.Lock(t.Context(), "a")
		isUnreachable(t, err, address, cause, begun)
	}
	address := "http://127.0.0.1:" + freePort(t)
	begun := time.Now()
	_, err := dial(t, address).Leased("a", "me").TryAcquire(t.Context(), 0)
	isUnreachable(t, err, address, "refused", begun)
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "coordinator.sock")
	startCoordinator(t, "--set", "server.uds_path="+socket)
	_, err := dial(t, "unix://"+socket).Lock(t.Context(), "a")
	check(t, err)
}

// authority issues certificates for 127.0.0.1.
type authority struct {
	t      *testing.T
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, folder: t.TempDir()}
	a.cert, a.key = a.issue("ca", true)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.folder, name) }

func (a *authority) issue(name string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: a.folder + name},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: isCA, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if isCA {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	check(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	check(a.t, err)
	a.write(name+".crt", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", secret)
	cert, err := x509.ParseCertificate(der)
	check(a.t, err)
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	check(a.t, os.WriteFile(a.file(name), text, 0o600))
}

func (a *authority) flags() []string {
	a.issue("server", false)
	return []string{
		"--set", "server.tls.certificate_file=" + a.file("server.crt"),
		"--set", "server.tls.key_file=" + a.file("server.key"),
	}
}

func TestTLS(t *testing.T) {
	trusted, other := newAuthority(t), newAuthority(t)
	coordinator := startCoordinator(t, trusted.flags()...)
	secure := "https://" + coordinator.address
	ca := func(a *authority) lockkeeper.Option {
		return lockkeeper.WithTLS(lockkeeper.TLS{CAFile: a.file("ca.crt")})
	}
	_, err := dial(t, secure, ca(trusted)).Lock(t.Context(), "a")
	check(t, err)
	for cause, attempt := range map[string]*lockkeeper.Client{
		"unknown authority": dial(t, secure, ca(other)),
		"uses TLS":          dial(t, coordinator.url()),
		"not valid for": dial(t, secure, lockkeeper.WithTLS(lockkeeper.TLS{
			CAFile: trusted.file("ca.crt"), ServerName: "elsewhere",
		})),
	} {
		address := secure
		if cause == "uses TLS" {
			address = coordinator.url()
		}
		begun := time.Now()
		_, err := attempt.Lock(t.Context(), "b")
		isUnreachable(t, err, address, cause, begun)
	}
	plain := startCoordinator(t)
	begun := time.Now()
	_, err = dial(t, "https://"+plain.address, ca(trusted)).Lock(t.Context(), "c")
	isUnreachable(t, err, "https://"+plain.address, "does not use TLS", begun)
}

func TestClientCertificate(t *testing.T) {
	authority := newAuthority(t)
	authority.issue("client", false)
	coordinator := startCoordinator(t, append(authority.flags(),
		"--set", "server.tls.client_ca_file="+authority.file("ca.crt"))...)
	files := lockkeeper.TLS{
		CAFile: authority.file("ca.crt"), CertFile: authority.file("client.crt"),
		KeyFile: authority.file("client.key"),
	}
	secure := "https://" + coordinator.address
	_, err := dial(t, secure, lockkeeper.WithTLS(files)).Lock(t.Context(), "a")
	check(t, err)
	files.CertFile, files.KeyFile = "", ""
	begun := time.Now()
	_, err = dial(t, secure, lockkeeper.WithTLS(files)).Lock(t.Context(), "a")
	isUnreachable(t, err, secure, "certificate required", begun)
}

func TestTokens(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		check(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	known := write("known", "ci 0123456789abcdef0123456789abcdef\n")
	coordinator := startCoordinator(t, "--set", "auth.token_file="+known)
	mine := write("mine", "0123456789abcdef0123456789abcdef\n")
	client := dial(t, coordinator.url(), lockkeeper.WithTokenFile(mine))
	_, err := client.Leased("a", "me").TryAcquire(t.Context(), 0)
	check(t, err)
	write("mine", "another")
	_, err = client.Leased("b", "me").TryAcquire(t.Context(), 0)
	refused, ok := errors.AsType[*lockkeeper.RefusedError](err)
	if !ok || refused.Reason != "UNAUTHENTICATED" {
		t.Fatalf("the file was not read again: %v", err)
	}
	check(t, os.Remove(mine))
	_, err = client.Leased("c", "me").TryAcquire(t.Context(), 0)
	if misconfigured, ok := errors.AsType[*lockkeeper.MisconfiguredError](err); !ok ||
		misconfigured.Field != "token" {
		t.Fatalf("%v", err)
	}
	called := lockkeeper.WithTokenFunc(func(context.Context) (string, error) {
		return "0123456789abcdef0123456789abcdef", nil
	})
	_, err = dial(t, coordinator.url(), called).Lock(t.Context(), "d")
	check(t, err)
	_, err = dial(t, coordinator.url(), lockkeeper.WithToken("wrong")).Lock(t.Context(), "e")
	if refused, ok := errors.AsType[*lockkeeper.RefusedError](err); !ok ||
		refused.Reason != "UNAUTHENTICATED" {
		t.Fatalf("%v", err)
	}
}

func TestTraceparent(t *testing.T) {
	frames, calls := make(chan string, 16), make(chan string, 16)
	unary := func(
		ctx context.Context, method string, request, answer any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		sent, _ := metadata.FromOutgoingContext(ctx)
		calls <- strings.Join(sent.Get("traceparent"), ",")
		return invoke(ctx, method, request, answer, conn, options...)
	}
	client := dial(t, startCoordinator(t).url(), spy{sent: func(frame *pb.SessionRequest) {
		if frame.GetAcquire() != nil {
			frames <- frame.Traceparent
		}
	}}.option(), lockkeeper.WithDialOptions(grpc.WithUnaryInterceptor(unary)))
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	})
	want := "00-01000000000000000000000000000000-0200000000000000-01"
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	for ctx, want := range map[context.Context]string{ctx: want, t.Context(): ""} {
		_, err := client.Lock(ctx, "a "+want)
		check(t, err)
		if got := receive(t, "a frame", frames); got != want {
			t.Fatalf("%q, not %q", got, want)
		}
		_, err = client.Leased("b "+want, "").TryAcquire(ctx, 0)
		check(t, err)
		if got := receive(t, "a call", calls); got != want {
			t.Fatalf("%q, not %q", got, want)
		}
	}
}
