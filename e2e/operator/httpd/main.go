// Httpd serves the folder /www on port 8080 until SIGTERM.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- http.ListenAndServe(":8080", http.FileServer(http.Dir("/www"))) }()
	select {
	case <-ctx.Done():
	case err := <-failed:
		fmt.Fprintln(os.Stderr, "httpd:", err)
		os.Exit(1)
	}
}
