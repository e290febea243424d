package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func configure(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadRefuses(t *testing.T) {
	const memory = "storage: {inmemory: {}}\n"
	const good = "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
	for want, text := range map[string]string{
		"error parsing":                      "x",
		`storage "s3" is not supported`:      good + "storage: {s3: {}}\n",
		`auth "token" is not supported`:      good + "storage: {inmemory: {}}\nauth: {token: {}}\n",
		"log.formatter is not supported":     "version: 0.1\nlog: {level: error, formatter: json}\nstorage: {inmemory: {}}\n",
		"http.draintimeout is not supported": good + "storage: {inmemory: {}}\nhttp: {draintimeout: 5s}\n",
		"proxy is not supported":             good + "storage: {inmemory: {}}\nproxy: {remoteurl: 'https://a'}\n",
		"http.tls: give both":                good + "storage: {inmemory: {}}\nhttp: {tls: {key: a}}\n",
		"http.debug is not supported":        good + "storage: {inmemory: {}}\nhttp: {debug: {addr: ':1'}}\n",
		"notifications.endpoints is not supported": good + memory +
			"notifications: {endpoints: [{name: a, url: 'http://a'}]}\n",
		"http.tls.clientcas is not supported: remov": good + memory +
			"http: {tls: {key: a, certificate: b, clientcas: [c]}}\n",
	} {
		if _, err := Read(configure(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := Read("/absent"); err == nil {
		t.Error("no file is no error")
	}
}

// serve runs a registry over a directory until stop is called, and returns its address.
func serve(t *testing.T, dir, more string) (base string, stop func()) {
	t.Helper()
	r, err := Read(configure(t, "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"+
		"storage: {filesystem: {rootdirectory: '"+dir+"'}, delete: {enabled: true}}\n"+more))
	if err != nil {
		t.Fatal(err)
	}
	if r.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return "http://" + r.Listener.Addr().String(), func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func ask(t *testing.T, method, url, kind, body, user string) (int, string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", manifestType) // as every client of images does
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if user != "" {
		request.SetBasicAuth(user, "pass")
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data), response.Header
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

// push puts an image without layers into a registry, and returns its manifest.
func push(t *testing.T, base, user string) string {
	t.Helper()
	const config = "{}"
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(config)))
	status, body, header := ask(t, http.MethodPost, base+"/v2/app/blobs/uploads/", "", "", user)
	if status != http.StatusAccepted {
		t.Fatalf("upload: %d %s", status, body)
	}
	status, body, _ = ask(t, http.MethodPut, header.Get("Location")+"&digest="+digest, "application/octet-stream", config,
		user)
	if status != http.StatusCreated {
		t.Fatalf("blob: %d %s", status, body)
	}
	manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":`+
		`"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[]}`, manifestType, digest, len(config))
	status, body, _ = ask(t, http.MethodPut, base+"/v2/app/manifests/1", manifestType, manifest, user)
	if status != http.StatusCreated {
		t.Fatalf("manifest: %d %s", status, body)
	}
	return manifest
}

// Images outlive a restart of the registry.
func TestImagesOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	base, stop := serve(t, dir, "")
	manifest := push(t, base, "")
	stop()
	base, stop = serve(t, dir, "")
	defer stop()
	status, body, _ := ask(t, http.MethodGet, base+"/v2/app/manifests/1", "", "", "")
	if status != http.StatusOK || body != manifest {
		t.Errorf("%d %s", status, body)
	}
	_, body, _ = ask(t, http.MethodGet, base+"/v2/_catalog", "", "", "")
	if strings.TrimSpace(body) != `{"repositories":["app"]}` {
		t.Errorf("catalog: %s", body)
	}
}

func TestUsers(t *testing.T) {
	users := filepath.Join(t.TempDir(), "htpasswd")
	hash, err := bcrypt.GenerateFromPassword([]byte("pass"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(users, []byte("me:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base, stop := serve(t, t.TempDir(), "auth: {htpasswd: {realm: quintet, path: '"+users+"'}}\n")
	defer stop()
	const refused = http.StatusUnauthorized
	for user, want := range map[string]int{"": refused, "other": refused, "me": http.StatusOK} {
		if status, body, _ := ask(t, http.MethodGet, base+"/v2/", "", "", user); status != want {
			t.Errorf("%q: %d %s, want %d", user, status, body, want)
		}
	}
	push(t, base, "me")
}

// A configuration that the library panics about is an error.
func TestBrokenConfiguration(t *testing.T) {
	r, err := Read(configure(t, "version: 0.1\nstorage: {inmemory: {}}\nauth: {htpasswd: {realm: x}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "registry configuration") {
		t.Errorf("got %v", err)
	}
}
