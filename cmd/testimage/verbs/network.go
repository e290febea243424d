package verbs

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

func get(args []string, s Streams) (int, error) {
	plain, opts, err := options(args, "timeout")
	if err != nil {
		return 2, err
	}
	if len(plain) != 1 {
		return 2, fmt.Errorf("usage: get URL [--timeout=DUR]")
	}
	timeout, err := duration(opts, "timeout", 5*time.Second)
	if err != nil {
		return 2, err
	}
	response, err := (&http.Client{Timeout: timeout}).Get(plain[0])
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
