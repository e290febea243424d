package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Addresses of the node on its loopback interface, at which its pods find its resolver: one per family, as pods may
// have either.
const (
	resolverIPv4 = "169.254.53.53"
	resolverIPv6 = "fd53:53::53"
)

// resolverTimeout bounds the answer to a question over UDP, resolverConn a connection over TCP.
const (
	resolverTimeout = 5 * time.Second
	resolverConn    = time.Minute
)

// resolver answers at an address by asking another resolver.
type resolver struct {
	packets  net.PacketConn
	listener net.Listener
	upstream string
}

// offerResolver makes the node's resolver reachable by pods where it is at an address of loopback, as that of Docker's
// networks is, and returns the resolv.conf that leads to it. Without need, there is neither: nil and "".
func offerResolver(ctx context.Context, r *reaper, kubeletArgs []string) (*resolver, string, error) {
	content, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return nil, "", fmt.Errorf("the node's resolver: %w", err)
	}
	address := resolverAddress(flagValue(kubeletArgs, "--node-ip"))
	changed, upstream := leadTo(string(content), address)
	if upstream == "" {
		return nil, "", nil
	}
	if err := r.run(ctx, "ip", "address", "replace", address.String(), "dev", "lo"); err != nil {
		return nil, "", err
	}
	resolver, err := listenResolver(netip.AddrPortFrom(address, 53).String(), net.JoinHostPort(upstream, "53"))
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(containerdDir, "resolv.conf")
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		resolver.close()
		return nil, "", err
	}
	return resolver, file, nil
}

// resolverAddress is of a family that the node's pods have.
func resolverAddress(nodeIPs string) netip.Addr {
	for _, text := range strings.Split(nodeIPs, ",") {
		if ip, err := netip.ParseAddr(text); err != nil || ip.Is4() {
			return netip.MustParseAddr(resolverIPv4)
		}
	}
	return netip.MustParseAddr(resolverIPv6)
}

// leadTo replaces the servers of a resolv.conf, if the first is at an address of loopback, which it returns.
func leadTo(content string, address netip.Addr) (changed, upstream string) {
	var lines []string
	for line := range strings.Lines(content) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			lines = append(lines, strings.TrimRight(line, "\n"))
			continue
		}
		if upstream != "" {
			continue
		}
		server, err := netip.ParseAddr(words[1])
		if err != nil || !server.IsLoopback() {
			return "", ""
		}
		upstream = server.String()
		lines = append(lines, "nameserver "+address.String())
	}
	return strings.Join(lines, "\n") + "\n", upstream
}

func listenResolver(address, upstream string) (*resolver, error) {
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, fmt.Errorf("the pods' resolver: %w", err)
	}
	// Over TCP at the same port, which is the system's to choose where address has 0.
	listener, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		return nil, fmt.Errorf("the pods' resolver: %w", errors.Join(err, packets.Close()))
	}
	return &resolver{packets: packets, listener: listener, upstream: upstream}, nil
}

func (r *resolver) close() {
	_ = r.packets.Close()
	_ = r.listener.Close()
}

// run answers until ctx ends. Questions under way are given up then.
func (r *resolver) run(ctx context.Context) {
	defer context.AfterFunc(ctx, r.close)()
	go r.acceptAll(ctx)
	var question [64 << 10]byte
	for {
		n, from, err := r.packets.ReadFrom(question[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of an answer that could not be delivered
		}
		go r.answer(ctx, append([]byte(nil), question[:n]...), from)
	}
}

// answer passes one question on. Without an answer, the client asks again.
func (r *resolver) answer(ctx context.Context, question []byte, from net.Addr) {
	ctx, cancel := context.WithTimeout(ctx, resolverTimeout)
	defer cancel()
	upstream, err := (&net.Dialer{}).DialContext(ctx, "udp", r.upstream)
	if err != nil {
		return
	}
	defer upstream.Close()
	defer context.AfterFunc(ctx, func() { _ = upstream.Close() })()
	if _, err := upstream.Write(question); err != nil {
		return
	}
	var answer [64 << 10]byte
	if n, err := upstream.Read(answer[:]); err == nil {
		_, _ = r.packets.WriteTo(answer[:n], from)
	}
}

// acceptAll passes connections on.
func (r *resolver) acceptAll(ctx context.Context) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // it was closed
		}
		go func() {
			defer client.Close()
			ctx, cancel := context.WithTimeout(ctx, resolverConn)
			defer cancel()
			upstream, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.upstream)
			if err != nil {
				return
			}
			defer upstream.Close()
			defer context.AfterFunc(ctx, func() { _, _ = upstream.Close(), client.Close() })()
			go func() {
				_, _ = io.Copy(upstream, client)
				_ = upstream.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(client, upstream)
		}()
	}
}
