package lockkeeper

import (
	"net"
	"net/url"
	"strings"
)

// address is where a coordinator is.
type address struct {
	text string
	// network and dial are what a net.Dialer takes.
	network, dial string
	tls           bool
	// host is the name in the certificate.
	host string
}

// parseAddress takes http://HOST:PORT, https://HOST:PORT, unix:///PATH, and HOST:PORT, which means
// http://.
func parseAddress(text string) (address, error) {
	full := text
	if !strings.Contains(text, "://") {
		full = "http://" + text
	}
	parsed, err := url.Parse(full)
	if err != nil {
		return address{}, misconfigured("endpoint "+text, "it is not an address")
	}
	switch parsed.Scheme {
	case "unix":
		if parsed.Host != "" || parsed.Path == "" {
			return address{}, misconfigured("endpoint "+text, "the path of a socket begins with /")
		}
		return address{full, "unix", parsed.Path, false, "localhost"}, nil
	case "http", "https":
	default:
		return address{}, misconfigured("endpoint "+text,
			"must be http://HOST:PORT, https://HOST:PORT or unix:///PATH")
	}
	host, port, err := net.SplitHostPort(parsed.Host)
	if err != nil || host == "" || port == "" {
		return address{}, misconfigured("endpoint "+text, "needs a host and a port")
	}
	if strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.User != nil {
		return address{}, misconfigured("endpoint "+text, "only a host and a port are allowed")
	}
	return address{full, "tcp", parsed.Host, parsed.Scheme == "https", host}, nil
}

func parseAddresses(texts []string) ([]address, error) {
	if len(texts) == 0 {
		return nil, misconfigured("endpoints", "a client needs at least one")
	}
	addresses := make([]address, len(texts))
	for i, text := range texts {
		parsed, err := parseAddress(text)
		if err != nil {
			return nil, err
		}
		addresses[i] = parsed
	}
	return addresses, nil
}
