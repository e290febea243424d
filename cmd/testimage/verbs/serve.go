package verbs

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// healthPath and its answers are the gRPC health protocol
// (https://github.com/grpc/grpc/blob/master/doc/health-checking.md), small enough to be written out.
const healthPath = "/grpc.health.v1.Health/Check"

const (
	grpcServing    = 1
	grpcNotServing = 2
)

// server is a process whose health a test can turn. It answers on HTTP:
//
//	/            the text, or the hostname     /healthz  200, or 500 while unhealthy
//	/healthz/set?ok=false  turns the health    /env?name=N, /file?path=P, /header?name=H, /remote, /local
//	/exit?code=N ends the process              /sleep?for=DUR answers later
//	/bytes?n=N   N bytes
type server struct {
	text      string
	unhealthy atomic.Bool
	exit      chan int
}

func serve(args []string, s Streams) (int, error) {
	_, opts, err := options(args, "http", "tcp", "udp", "grpc", "ready-after", "fail-after", "text")
	if err != nil {
		return 2, err
	}
	srv := &server{text: opts["text"], exit: make(chan int, 1)}
	if srv.text == "" {
		if srv.text, err = os.Hostname(); err != nil {
			return 1, err
		}
	}
	if err := srv.schedule(opts); err != nil {
		return 2, err
	}
	if opts["http"] == "" && opts["tcp"] == "" && opts["udp"] == "" && opts["grpc"] == "" {
		opts["http"] = ":8080"
	}
	failed := make(chan error, 1)
	if err := srv.listen(opts, failed); err != nil {
		return 1, err
	}
	fmt.Fprintln(s.Out, "serving")
	ctx, stop := untilTerminated()
	defer stop()
	select {
	case <-ctx.Done():
		return 0, nil
	case code := <-srv.exit:
		return code, nil
	case err := <-failed:
		return 1, err
	}
}

// schedule plans the changes of health.
func (srv *server) schedule(opts map[string]string) error {
	readyAfter, err := duration(opts, "ready-after", 0)
	if err != nil {
		return err
	}
	failAfter, err := duration(opts, "fail-after", 0)
	if err != nil {
		return err
	}
	if readyAfter > 0 {
		srv.unhealthy.Store(true)
		time.AfterFunc(readyAfter, func() { srv.unhealthy.Store(false) })
	}
	if failAfter > 0 {
		time.AfterFunc(failAfter, func() { srv.unhealthy.Store(true) })
	}
	return nil
}

// listen serves on all addresses, of which a protocol may have several; the first failure of one goes to failed.
func (srv *server) listen(opts map[string]string, failed chan<- error) error {
	handlers := map[string]func(net.Listener) error{
		"http": func(l net.Listener) error { return http.Serve(l, srv.http()) },
		"tcp":  srv.tcp,
		"grpc": srv.grpc,
	}
	report := func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	for protocol, handle := range handlers {
		for _, addr := range addresses(opts[protocol]) {
			listener, err := net.Listen("tcp", addr)
			if err != nil {
				return err
			}
			go func() { report(handle(listener)) }()
		}
	}
	for _, addr := range addresses(opts["udp"]) {
		conn, err := net.ListenPacket("udp", addr)
		if err != nil {
			return err
		}
		go func() { report(srv.udp(conn)) }()
	}
	return nil
}

// addresses splits a list at its commas; the empty one has no element.
func addresses(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

func (srv *server) http() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, srv.text) })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if srv.unhealthy.Load() {
			http.Error(w, "unhealthy", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/healthz/set", func(w http.ResponseWriter, r *http.Request) {
		ok, err := strconv.ParseBool(r.FormValue("ok"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		srv.unhealthy.Store(!ok)
	})
	mux.HandleFunc("/env",
		func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, os.Getenv(r.FormValue("name"))) })
	mux.HandleFunc("/header", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.Header.Get(r.FormValue("name")))
	})
	mux.HandleFunc("/remote", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.RemoteAddr) })
	mux.HandleFunc("/local", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.Context().Value(http.LocalAddrContextKey))
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, r.FormValue("path")) })
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = io.CopyN(w, zeros{}, n) // a client that goes away gets less
	})
	mux.HandleFunc("/sleep", func(w http.ResponseWriter, r *http.Request) {
		d, err := time.ParseDuration(r.FormValue("for"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(d)
		fmt.Fprintln(w, "slept", d)
	})
	mux.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil {
			code = 1
		}
		srv.exit <- code
	})
	return mux
}

// tcp echoes what it gets.
func (srv *server) tcp(listener net.Listener) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, conn)
		}()
	}
}

// grpc serves the health check over cleartext HTTP/2.
func (srv *server) grpc(listener net.Listener) error {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(srv.grpcHealth)}
	return server.Serve(listener)
}

func (srv *server) grpcHealth(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	if r.URL.Path != healthPath {
		w.Header().Set("Grpc-Status", "12") // UNIMPLEMENTED
		return
	}
	status := byte(grpcServing)
	if srv.unhealthy.Load() {
		status = grpcNotServing
	}
	// An uncompressed message of two bytes: field 1, varint, the status.
	_, _ = w.Write([]byte{0, 0, 0, 0, 2, 0x08, status})
	w.Header().Set("Grpc-Status", "0")
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
