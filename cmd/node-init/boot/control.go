package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// serveControl answers the verbs of `node-init stop|start|restart|status` on a socket until ctx ends.
func serveControl(ctx context.Context, socket string, s *supervisor) error {
	_ = os.Remove(socket) // left by a node that was killed
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: control(s), ReadHeaderTimeout: time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func control(s *supervisor) http.Handler {
	verb := func(do func(name string) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.PathValue("service")); err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /stop/{service}", verb(s.stop))
	mux.HandleFunc("POST /start/{service}", verb(s.start))
	mux.HandleFunc("POST /restart/{service}", verb(func(name string) error {
		if err := s.stop(name); err != nil {
			return err
		}
		return s.start(name)
	}))
	mux.HandleFunc("POST /status", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, strings.Join(s.status(), "\n"))
	})
	return mux
}

// ask sends one verb to the node-init that serves socket and prints its answer.
func ask(socket, verb string, args []string, out io.Writer) error {
	path := "/" + verb
	if verb != "status" {
		if len(args) != 1 {
			return fmt.Errorf("%s takes the name of one service; `node-init status` lists them", verb)
		}
		path += "/" + args[0]
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	response, err := client.Post("http://node-init"+path, "", nil)
	if err != nil {
		return fmt.Errorf("node-init does not answer; is this a node, and has it booted? %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(answer)))
	}
	_, err = out.Write(answer)
	return err
}
