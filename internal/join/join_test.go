package join

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cluster-bootstrap/token/jws"

	"quintet.dev/quintet/internal/certs"
)

func TestParse(t *testing.T) {
	for text, valid := range map[string]bool{
		"abcdef.0123456789abcdef": true, "abcdef.0123456789abcde": false, "Abcdef.0123456789abcdef": false,
		"abcdef0123456789abcdef": false, "": false, " abcdef.0123456789abcdef": false, "abcdef.0123456789abcdeF": false,
	} {
		got, err := Parse(text)
		if (err == nil) != valid {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && got.String() != text {
			t.Errorf("%q is written %q", text, got)
		}
	}
	for _, text := range []string{"abcdef", "abcdef.0123456789abcdef"} {
		if id, err := ParseID(text); id != "abcdef" || err != nil {
			t.Errorf("%q: %q, %v", text, id, err)
		}
	}
	if _, err := ParseID("abc"); err == nil {
		t.Error("abc is no identity")
	}
}

func TestErrorsKeepTheSecret(t *testing.T) {
	_, err := Parse("abcdef.verysecret")
	if err == nil || strings.Contains(err.Error(), "verysecret") {
		t.Error(err)
	}
}

func TestGeneratedTokensDiffer(t *testing.T) {
	a, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Generate(); err != nil || a.String() == b.String() {
		t.Error(a, b, err)
	}
}

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		usages, groups []string
		want           string
	}{
		"both usages":              {[]string{"signing", "authentication"}, []string{NodeGroup}, ""},
		"none":                     {nil, nil, "at least one"},
		"unknown usage":            {[]string{"cooking"}, nil, "cooking"},
		"group of no bootstrapper": {[]string{"authentication"}, []string{"system:masters"}, "system:masters"},
		"group of one that signs":  {[]string{"signing"}, []string{NodeGroup}, "authentication"},
	} {
		err := Token{ID: "abcdef", Usages: test.usages, Groups: test.groups}.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestObjectGoesRound(t *testing.T) {
	want := Token{ID: "abcdef", Secret: "0123456789abcdef", Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		Usages: []string{"signing", "authentication"}, Groups: []string{NodeGroup}, Description: "a laptop"}
	object := want.Object()
	if object.Name != "bootstrap-token-abcdef" || object.Type != "bootstrap.kubernetes.io/token" ||
		string(object.Data["expiration"]) != "2030-01-02T03:04:05Z" {
		t.Errorf("%v", object)
	}
	got, err := FromObject(object)
	if err != nil || got.String() != want.String() || !got.Expires.Equal(want.Expires) ||
		!slices.Equal(got.Usages, want.Usages) || !slices.Equal(got.Groups, want.Groups) ||
		got.Description != want.Description {
		t.Errorf("%+v, %v", got, err)
	}
	object.Name = "bootstrap-token-fedcba"
	if _, err := FromObject(object); err == nil {
		t.Error("a Secret of another name is no token")
	}
}

// TestPin compares with the command that kubeadm's documentation has for it.
func TestPin(t *testing.T) {
	authority := newAuthority(t)
	got, err := PinOf(authority)
	if err != nil {
		t.Fatal(err)
	}
	if checked, err := CheckPin(strings.ToUpper(got)); err != nil || checked != got {
		t.Errorf("%q: %q, %v", got, checked, err)
	}
	for _, text := range []string{"", "sha256:", "sha256:12", "sha512:" + strings.TrimPrefix(got, "sha256:"),
		got + "00", "sha256:" + strings.Repeat("g", 64)} {
		if _, err := CheckPin(text); err == nil {
			t.Errorf("%q is a hash", text)
		}
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		return // the rest compares with it
	}
	cmd := exec.Command("sh", "-c", "openssl x509 -pubkey | openssl pkey -pubin -outform der | sha256sum")
	cmd.Stdin = strings.NewReader(string(authority))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if sum, _, _ := strings.Cut(string(out), " "); "sha256:"+sum != got {
		t.Errorf("%s, openssl says %s", got, sum)
	}
}

func TestTrustedAuthority(t *testing.T) {
	authority, token := newAuthority(t), Token{ID: "abcdef", Secret: "0123456789abcdef"}
	pin, err := PinOf(authority)
	if err != nil {
		t.Fatal(err)
	}
	other, err := PinOf(newAuthority(t))
	if err != nil {
		t.Fatal(err)
	}
	signed := func() *corev1.ConfigMap {
		info, err := ClusterInfo("https://x:6443", authority)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := jws.ComputeDetachedSignature(info.Data["kubeconfig"], token.ID, token.Secret)
		if err != nil {
			t.Fatal(err)
		}
		info.Data["jws-kubeconfig-abcdef"] = signature
		return info
	}
	for name, test := range map[string]struct {
		change func(*corev1.ConfigMap)
		token  Token
		pins   []string
		want   error
	}{
		"the cluster":    {nil, token, []string{pin}, nil},
		"one of several": {nil, token, []string{other, pin}, nil},
		"without a hash": {nil, token, nil, nil},
		"another hash":   {nil, token, []string{other}, ErrAuthority},
		"wrong secret":   {nil, Token{ID: token.ID, Secret: "fedcba9876543210"}, []string{pin}, ErrSignature},
		"unknown token":  {nil, Token{ID: "fedcba", Secret: token.Secret}, []string{pin}, ErrNotSigned},
		"changed content": {func(info *corev1.ConfigMap) {
			info.Data["kubeconfig"] = strings.Replace(info.Data["kubeconfig"], "x:6443", "y:6443", 1)
		}, token, []string{pin}, ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			info := signed()
			if test.change != nil {
				test.change(info)
			}
			got, err := TrustedAuthority(info, test.token, test.pins)
			if !errors.Is(err, test.want) || (test.want == nil) != (err == nil) {
				t.Fatal(err)
			}
			if err == nil && string(got) != string(authority) {
				t.Errorf("%s", got)
			}
			if SignedBy(info, test.token) != (test.want == nil || errors.Is(test.want, ErrAuthority)) {
				t.Error("SignedBy says otherwise")
			}
		})
	}
	empty := signed()
	delete(empty.Data, "kubeconfig")
	if _, err := TrustedAuthority(empty, token, nil); err == nil {
		t.Error("a ConfigMap without a kubeconfig is trusted")
	}
}

func TestNodeConfigGoesRound(t *testing.T) {
	want := NodeConfig{KubeletArgs: []string{"--v=2"},
		Files:    map[string][]byte{"docker/certs.d/x:5000/ca.crt": []byte("x")},
		Services: []string{"kube-proxy"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}
	object, err := want.Object()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadNodeConfig(object)
	if err != nil || len(got.Files) != 1 || !slices.Equal(got.KubeletArgs, want.KubeletArgs) ||
		!slices.Equal(got.Services, want.Services) || !slices.Equal(got.IPFamilies, want.IPFamilies) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range []string{"../x", "/etc/passwd", "a/../../x", ""} {
		want.Files = map[string][]byte{name: nil}
		object, err := want.Object()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadNodeConfig(object); err == nil {
			t.Errorf("%q is the path of a file", name)
		}
	}
}

// newAuthority is the certificate of a new authority, in PEM.
func newAuthority(t *testing.T) []byte {
	t.Helper()
	made, err := certs.NewAuthority("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(made.Cert)
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return made.Cert
}
