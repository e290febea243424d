package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// enginePoll is short: the engine's start is most of a node's.
const enginePoll = 10 * time.Millisecond

// engineClient is an HTTP client of the Docker engine's socket. Two requests don't need a client library.
func engineClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
}

// waitForEngine returns when the engine answers.
func waitForEngine(ctx context.Context, socket string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := engineClient(socket)
	for {
		err := ping(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Docker engine does not answer after %s: %w", timeout, err)
		case <-time.After(enginePoll):
		}
	}
}

func ping(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// loadImages loads the image archives of dir that were not loaded yet into the engine.
func loadImages(ctx context.Context, socket, dir, loadedDir string) error {
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil || len(archives) == 0 {
		return err
	}
	if err := os.MkdirAll(loadedDir, 0o755); err != nil {
		return err
	}
	client := engineClient(socket)
	for _, archive := range archives {
		mark := filepath.Join(loadedDir, filepath.Base(archive))
		if _, err := os.Stat(mark); err == nil {
			continue
		}
		if err := loadImage(ctx, client, archive); err != nil {
			return fmt.Errorf("load image %s: %w", archive, err)
		}
		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func loadImage(ctx context.Context, client *http.Client, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker/images/load?quiet=1", file)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-tar")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return loadResult(response)
}

// loadResult reads the engine's stream of messages, which reports failures after the status line.
func loadResult(response *http.Response) error {
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	decoder := json.NewDecoder(response.Body)
	for {
		var message struct {
			Error string `json:"error"`
		}
		err := decoder.Decode(&message)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if message.Error != "" {
			return errors.New(message.Error)
		}
	}
}
