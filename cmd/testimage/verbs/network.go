package verbs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func get(args []string, s Streams) (int, error) {
	plain, opts, err := options(args, "timeout", "ca", "token")
	if err != nil {
		return 2, err
	}
	if len(plain) != 1 {
		return 2, fmt.Errorf("usage: get URL [--timeout=DUR] [--ca=FILE] [--token=FILE]")
	}
	timeout, err := duration(opts, "timeout", 5*time.Second)
	if err != nil {
		return 2, err
	}
	request, err := newRequest(plain[0], opts["token"])
	if err != nil {
		return 2, err
	}
	client := &http.Client{Timeout: timeout}
	if file := opts["ca"]; file != "" {
		if client.Transport, err = trusting(file); err != nil {
			return 2, err
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return 1, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(s.Out, response.Body); err != nil {
		return 1, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return 1, fmt.Errorf("%s", response.Status)
	}
	return 0, nil
}

// drain reads a body and prints how long that took.
func drain(args []string, s Streams) (int, error) {
	if len(args) != 1 {
		return 2, fmt.Errorf("usage: drain URL")
	}
	begin := time.Now()
	response, err := http.Get(args[0])
	if err != nil {
		return 1, err
	}
	defer response.Body.Close()
	read, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		return 1, err
	}
	if response.StatusCode >= http.StatusBadRequest || read != response.ContentLength && response.ContentLength >= 0 {
		return 1, fmt.Errorf("%s, %d bytes", response.Status, read)
	}
	fmt.Fprintln(s.Out, time.Since(begin))
	return 0, nil
}

// newRequest carries the bearer token of a file, if there is one.
func newRequest(url, tokenFile string) (*http.Request, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil || tokenFile == "" {
		return request, err
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, fmt.Errorf("--token: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return request, nil
}

// trusting returns a transport that trusts the certificate authorities of a file alone.
func trusting(file string) (*http.Transport, error) {
	bundle, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("--ca: %s holds no certificate", file)
	}
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}, nil
}

func connect(args []string, s Streams) (int, error) {
	plain, opts, err := options(args, "timeout")
	if err != nil {
		return 2, err
	}
	if len(plain) != 1 {
		return 2, fmt.Errorf("usage: connect HOST:PORT [--timeout=DUR]")
	}
	timeout, err := duration(opts, "timeout", 5*time.Second)
	if err != nil {
		return 2, err
	}
	conn, err := net.DialTimeout("tcp", plain[0], timeout)
	if err != nil {
		return 1, err
	}
	fmt.Fprintln(s.Out, "connected to", conn.RemoteAddr())
	return 0, conn.Close()
}

func resolve(args []string, s Streams) (int, error) {
	if len(args) != 1 {
		return 2, fmt.Errorf("usage: resolve NAME")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, args[0])
	if err != nil {
		return 1, err
	}
	return 0, writeSorted(s.Out, addresses)
}
