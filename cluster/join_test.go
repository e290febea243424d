package cluster

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/internal/join"
)

// Tokens are made, listed, authenticate, sign cluster-info, which anyone may read from then on, and are deleted.
func TestTokens(t *testing.T) {
	c, _ := started(t, WithNodes(0))
	anonymous, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(c.rest))
	if err != nil {
		t.Fatal(err)
	}
	info := func() (*corev1.ConfigMap, error) {
		return anonymous.CoreV1().ConfigMaps("kube-public").Get(t.Context(), "cluster-info", metav1.GetOptions{})
	}
	if _, err := info(); !apierrors.IsForbidden(err) {
		t.Errorf("before the first token, a client without credentials gets %v", err)
	}
	made, err := c.CreateToken(t.Context(), TokenOptions{Description: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(made.Expires); left < 23*time.Hour || left > 24*time.Hour ||
		!slices.Equal(made.Groups, []string{NodeTokenGroup}) {
		t.Errorf("%+v", made)
	}
	if _, err := c.CreateToken(t.Context(), TokenOptions{Token: made.Token}); err == nil {
		t.Error("the same token is made again")
	}
	listed, err := c.Tokens(t.Context())
	if err != nil || len(listed) != 1 || listed[0].Token != made.Token || listed[0].Description != "a test" {
		t.Errorf("%+v, %v", listed, err)
	}
	token, err := join.Parse(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		t.Fatal(err)
	}
	if err := awaitSignature(t.Context(), client, token); err != nil {
		t.Fatal(err)
	}
	public, err := info()
	if err != nil {
		t.Fatal(err)
	}
	authority, err := join.TrustedAuthority(public, token, nil)
	if err != nil || string(authority) != string(c.ids.cluster.Cert) {
		t.Errorf("%v", err)
	}
	_, err = anonymous.CoreV1().ConfigMaps("kube-public").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a client without credentials lists ConfigMaps: %v", err)
	}
	if _, err := c.JoinCommand(t.Context(), JoinOptions{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a container may join a process: %v", err)
	}
	if err := c.DeleteToken(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteToken(t.Context(), made.ID); err == nil {
		t.Error("a token is deleted twice")
	}
}

func TestTokenOptions(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for name, test := range map[string]struct {
		o       TokenOptions
		expires time.Time
		bad     bool
	}{
		"a day":         {TokenOptions{}, now.Add(24 * time.Hour), false},
		"an hour":       {TokenOptions{TTL: time.Hour}, now.Add(time.Hour), false},
		"for ever":      {TokenOptions{TTL: NoExpiry}, time.Time{}, false},
		"before now":    {TokenOptions{TTL: -time.Hour}, time.Time{}, true},
		"malformed":     {TokenOptions{Token: "x"}, time.Time{}, true},
		"unknown usage": {TokenOptions{Usages: []string{"x"}}, time.Time{}, true},
		"foreign group": {TokenOptions{Groups: []string{"system:masters"}}, time.Time{}, true},
	} {
		got, err := test.o.token(now)
		if (err != nil) != test.bad || err == nil && !got.Expires.Equal(test.expires) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestJoinOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]JoinOptions{
		"node name":          {NodeName: "a_b"},
		"kubectl label node": {Labels: map[string]string{"node-role.kubernetes.io/x": ""}},
		"taints[0].effect":   {Taints: []corev1.Taint{{Key: "a", Effect: "x"}}},
	} {
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}

// What a node gets that joins has no key, and the kubelet's arguments name no file that the node has not.
func TestJoinConfigHasNoKey(t *testing.T) {
	c := configured(t, WithRegistry(), WithArgs(KubeProxy, "--v=2"), WithoutDefaultStorageClass())
	ids, err := newIdentities(time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&layout{config: c, addressing: street{}, ids: ids}).joinConfig()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range got.Files {
		if strings.Contains(string(content), "PRIVATE KEY") || strings.HasSuffix(name, ".conf") {
			t.Errorf("%s has credentials:\n%s", name, content)
		}
	}
	if want := []string{"node-routes", "kube-proxy", "network-policy"}; !slices.Equal(got.Services, want) {
		t.Errorf("services %q, want %q", got.Services, want)
	}
	if string(got.Files["args/kube-proxy"]) != "--v=2\n" || got.Files["docker/certs.d/registry:5000/ca.crt"] == nil {
		t.Errorf("files %q", got.Files)
	}
	for _, text := range []string{"rotateCertificates: true", "serverTLSBootstrap: true"} {
		if !strings.Contains(string(got.Files["kubelet.yaml"]), text) {
			t.Errorf("the kubelet has no %s", text)
		}
	}
}

func TestDockerRun(t *testing.T) {
	l := &joinLayout{layout: layout{config: configured(t)}, attachment: backend.Attachment{Network: "quintet-x",
		Labels: map[string]string{"io.quintet.cluster": "x"}, RunFlags: []string{"--device-cgroup-rule", "a *:* rwm"}}}
	args := l.dockerRun(JoinOptions{NodeName: "a", Labels: map[string]string{"zone": "it's"}})
	want := []string{"docker", "run", "--detach", "--name", "x-a", "--env", "NODE_NAME=a", "--env",
		"NODE_LABELS=zone=it's", "--network", "quintet-x", "--label",
		"io.quintet.cluster=x", "--device-cgroup-rule", "a *:* rwm", "--volume",
		"/var/lib/kubelet"}
	if !slices.Equal(args, want) {
		t.Errorf("got  %q\nwant %q", args, want)
	}
	if slices.Contains(l.dockerRun(JoinOptions{Elsewhere: true}), "--network") {
		t.Error("another machine has the cluster's network")
	}
	line := JoinCommand{Args: append([]string{"printf", `%s\n`}, args...)}.String()
	out, err := exec.Command("sh", "-c", line).Output()
	if err != nil || string(out) != strings.Join(args, "\n")+"\n" {
		t.Errorf("a shell reads %s as\n%s (%v)", line, out, err)
	}
}

// The user's choice of controllers is not added to.
func TestControllersArg(t *testing.T) {
	if got := configured(t).controllersArg(); len(got) != 1 || !strings.Contains(got[0], "*,bootstrap-signer") {
		t.Error(got)
	}
	if got := configured(t, WithArgs(ControllerManager, "--controllers=deployment")).controllersArg(); got != nil {
		t.Error(got)
	}
}
