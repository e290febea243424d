package core

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

func TestConfigMaps(t *testing.T) {
	type object = *corev1.ConfigMap
	data := func(pairs ...string) func(object) {
		return func(c object) {
			c.Data = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				c.Data[pairs[i]] = pairs[i+1]
			}
		}
	}
	half := strings.Repeat("x", corev1.MaxSecretSize/2)
	checkRules(t, "", func() object { return &corev1.ConfigMap{} }, ValidateConfigMap, []ruleCase[object]{
		{"empty", func(object) {}, nil},
		{"keys", data("a", "1", ".b", "2", "C-d_e.f", ""), nil},
		{"no key", data("", "1"), texts{`data[]: Invalid value: "": a valid config key must consist of…`}},
		{"this directory", data(".", "1"), texts{`data[.]: Invalid value: ".": must not be '.'`}},
		{"above", data("..", "1"), texts{`data[..]: Invalid value: "..": must not be '..'`}},
		{"kubelet's", data("..a", "1"), texts{`data[..a]: Invalid value: "..a": must not start with '..'`}},
		{"with a slash", data("a/b", "1"),
			texts{`data[a/b]: Invalid value: "a/b": a valid config key must consist of…`}},
		{"long key", data(strings.Repeat("a", 254), "1"),
			texts{"data[" + strings.Repeat("a", 254) + "]: Invalid value: " +
				`"` + strings.Repeat("a", 254) + `": must be no more than 253…`}},
		{"binary", func(c object) { c.BinaryData = map[string][]byte{"a": {0xff}} }, nil},
		{"bad binary key", func(c object) { c.BinaryData = map[string][]byte{"a b": {0xff}} },
			texts{`binaryData[a b]: Invalid value: "a b": a valid config key must consist of…`}},
		{"text and binary", func(c object) {
			data("a", "1")(c)
			c.BinaryData = map[string][]byte{"a": nil}
		}, texts{`data[a]: Invalid value: "a": duplicate of key present in binaryData`}},
		{"as large as may be", func(c object) {
			c.Data, c.BinaryData = map[string]string{"a": half}, map[string][]byte{"b": []byte(half)}
		}, nil},
		{"too large", func(c object) {
			c.Data, c.BinaryData = map[string]string{"a": half}, map[string][]byte{"b": []byte(half + "x")}
		}, texts{"[]: Too long: may not be more than 1048576 bytes"}},
	})
}

// TestImmutability: what is immutable stays so, and with it its data; labels don't count.
func TestImmutability(t *testing.T) {
	type object = *corev1.ConfigMap
	const msg = ": Forbidden: field is immutable when `immutable` is set"
	checkChanges(t, "", func() object {
		return &corev1.ConfigMap{Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {1}},
			Immutable: new(true)}
	}, ValidateConfigMapChange, []changeCase[object]{
		{"label", nil, func(c object) { c.Labels = map[string]string{"a": "b"} }, nil},
		{"data", nil, func(c object) { c.Data["a"] = "2" }, texts{"data" + msg}},
		{"no data", nil, func(c object) { c.Data = nil }, texts{"data" + msg}},
		{"binary data", nil, func(c object) { c.BinaryData["b"] = []byte{2} }, texts{"binaryData" + msg}},
		{"mutable", nil, func(c object) { c.Immutable = new(false) }, texts{"immutable" + msg}},
		{"all", nil, func(c object) { c.Immutable, c.Data, c.BinaryData = nil, nil, nil },
			texts{"immutable" + msg, "data" + msg, "binaryData" + msg}},
		{"what was mutable", func(c object) { c.Immutable = new(false) },
			func(c object) { c.Data, c.Immutable = nil, new(true) }, nil},
		{"empty for nothing", func(c object) { c.Data = nil }, func(c object) { c.Data = map[string]string{} },
			texts{"data" + msg}},
	})
	type secret = *corev1.Secret
	checkChanges(t, "", func() secret {
		return &corev1.Secret{Type: "Opaque", Data: map[string][]byte{"b": {1}}, Immutable: new(true)}
	}, ValidateSecretChange, []changeCase[secret]{
		{"label", nil, func(s secret) { s.Labels = map[string]string{"a": "b"} }, nil},
		{"data", nil, func(s secret) { s.Data["b"] = nil }, texts{"data" + msg}},
		{"mutable", nil, func(s secret) { s.Immutable = nil }, texts{"immutable" + msg}},
		{"what was mutable", func(s secret) { s.Immutable = nil },
			func(s secret) { s.Data, s.Immutable = nil, new(true) }, nil},
		{"type", func(s secret) { s.Immutable = nil }, func(s secret) { s.Type = "a/b" },
			texts{`type: Invalid value: "a/b": field is immutable`}},
	})
	// A config map from a client without data is compared as one with none in it.
	k := configMaps()
	bare := &corev1.ConfigMap{}
	if k.Versions[0].Default(bare); bare.Data == nil {
		t.Error("no data isn't empty data")
	}
}

// TestSecretTypes: what each type of secret has to have.
func TestSecretTypes(t *testing.T) {
	type object = *corev1.Secret
	of := func(kind corev1.SecretType, pairs ...string) func(object) {
		return func(s object) {
			s.Type, s.Data = kind, map[string][]byte{}
			for i := 0; i < len(pairs); i += 2 {
				s.Data[pairs[i]] = []byte(pairs[i+1])
			}
		}
	}
	const hidden = `Invalid value: "<secret contents redacted>": `
	checkRules(t, "", func() object { return &corev1.Secret{} }, ValidateSecret, []ruleCase[object]{
		{"opaque", of("Opaque", "a", "b"), nil},
		{"another type", of("example.com/x"), nil},
		{"bad key", of("Opaque", "a b", ""),
			texts{`data[a b]: Invalid value: "a b": a valid config key must consist of…`}},
		{"large", of("Opaque", "a", strings.Repeat("x", corev1.MaxSecretSize)), nil},
		{"too large", of("Opaque", "a", strings.Repeat("x", corev1.MaxSecretSize), "b", "x"),
			texts{"data: Too long: may not be more than 1048576 bytes"}},
		{"token", func(s object) {
			of("kubernetes.io/service-account-token")(s)
			s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "a"}
		}, nil},
		{"token of no account", of("kubernetes.io/service-account-token"),
			texts{"metadata.annotations[kubernetes.io/service-account.name]: Required value"}},
		{"docker", of("kubernetes.io/dockercfg", ".dockercfg", `{"a":{}}`), nil},
		{"docker without a file", of("kubernetes.io/dockercfg", ".dockerconfigjson", "{}"),
			texts{"data[.dockercfg]: Required value"}},
		{"docker not in JSON", of("kubernetes.io/dockercfg", ".dockercfg", "secret"),
			texts{"data[.dockercfg]: " + hidden + "invalid character 's' looking for beginning of value"}},
		{"docker of a list", of("kubernetes.io/dockercfg", ".dockercfg", "[]"),
			texts{"data[.dockercfg]: " + hidden + "json: cannot unmarshal array…"}},
		{"docker JSON", of("kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{}"), nil},
		{"docker JSON without a file", of("kubernetes.io/dockerconfigjson"),
			texts{"data[.dockerconfigjson]: Required value"}},
		{"empty docker JSON", of("kubernetes.io/dockerconfigjson", ".dockerconfigjson", ""),
			texts{"data[.dockerconfigjson]: " + hidden + "unexpected end of JSON input"}},
		{"user", of("kubernetes.io/basic-auth", "username", ""), nil},
		{"password", of("kubernetes.io/basic-auth", "password", ""), nil},
		{"neither", of("kubernetes.io/basic-auth", "user", ""), texts{"data[username]: Required value",
			"data[password]: Required value"}},
		{"SSH", of("kubernetes.io/ssh-auth", "ssh-privatekey", "k"), nil},
		{"SSH of an empty key", of("kubernetes.io/ssh-auth", "ssh-privatekey", ""),
			texts{"data[ssh-privatekey]: Required value"}},
		{"TLS", of("kubernetes.io/tls", "tls.crt", "", "tls.key", ""), nil},
		{"TLS of nothing", of("kubernetes.io/tls"), texts{"data[tls.crt]: Required value",
			"data[tls.key]: Required value"}},
		{"TLS without a key", of("kubernetes.io/tls", "tls.crt", ""), texts{"data[tls.key]: Required value"}},
		{"bootstrap token", of("bootstrap.kubernetes.io/token"), nil},
	})
}

func TestSecretDefaults(t *testing.T) {
	s := &corev1.Secret{Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")},
		StringData: map[string]string{"a": "3", "c": "4"}}
	DefaultSecret(s)
	want := map[string][]byte{"a": []byte("3"), "b": []byte("2"), "c": []byte("4")}
	if s.Type != "Opaque" || s.StringData != nil || !reflect.DeepEqual(s.Data, want) {
		t.Errorf("got %+v", s)
	}
	s = &corev1.Secret{Type: "x/y", StringData: map[string]string{"a": "3"}}
	if DefaultSecret(s); s.Type != "x/y" || string(s.Data["a"]) != "3" {
		t.Errorf("got %+v", s)
	}
	s = &corev1.Secret{}
	if DefaultSecret(s); s.Data != nil {
		t.Errorf("got %+v", s)
	}
	update := secrets().Strategy.PrepareUpdate
	now := &corev1.Secret{StringData: map[string]string{"a": "1"}}
	if update(t.Context(), now, &corev1.Secret{Type: "x/y"}); now.Type != "x/y" || string(now.Data["a"]) != "1" {
		t.Errorf("an update without a type became %+v", now)
	}
}

func TestConfigWarnings(t *testing.T) {
	const note = "kubernetes.io/enforce-mountable-secrets"
	account := func(keys ...string) *corev1.ServiceAccount {
		a := &corev1.ServiceAccount{}
		for _, key := range keys {
			a.Annotations = map[string]string{key: "true"}
		}
		return a
	}
	told := texts{"metadata.annotations[" + note +
		"]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
	for name, c := range map[string]struct {
		is, was *corev1.ServiceAccount
		want    texts
	}{
		"plain": {account(), nil, nil}, "another": {account("a"), nil, nil}, "new": {account(note), nil, told},
		"added": {account(note), account(), told}, "kept": {account(note), account(note), nil},
		"removed": {account(), account(note), nil},
	} {
		t.Run(name, func(t *testing.T) { sameTexts(t, ServiceAccountWarnings(c.is, c.was), c.want) })
	}
	tls := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": []byte("x")}}
	sameTexts(t, SecretWarnings(tls, nil), texts{"tls: failed to find any PEM data in certificate input"})
	tls.Type = "Opaque"
	sameTexts(t, SecretWarnings(tls, nil), nil)
}

func TestServiceAccounts(t *testing.T) {
	a := &corev1.ServiceAccount{Secrets: []corev1.ObjectReference{{Name: "a", Namespace: "b", Kind: "Secret", UID: "c"},
		{Name: "d"}}}
	if TrimSecretReferences(a); !slices.Equal(a.Secrets, []corev1.ObjectReference{{Name: "a"}, {Name: "d"}}) {
		t.Errorf("got %+v", a.Secrets)
	}
}

// TestRowsOfConfig: what kubectl get shows.
func TestRowsOfConfig(t *testing.T) {
	config := &corev1.ConfigMap{Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": nil, "c": nil}}
	config.Name, config.CreationTimestamp = "c", ago(0)
	sameRow(t, ConfigMapColumns(), ConfigMapRow(config), "c", int64(3), "0s")
	secret := &corev1.Secret{Type: "Opaque", Data: map[string][]byte{"a": []byte("hidden")}}
	secret.Name = "s"
	sameRow(t, SecretColumns(), SecretRow(secret), "s", "Opaque", int64(1), "<unknown>")
	account := &corev1.ServiceAccount{}
	account.Name = "a"
	sameRow(t, ServiceAccountColumns(), ServiceAccountRow(account), "a", "<unknown>")
	for want, conditions := range map[string][]corev1.ComponentCondition{
		"Healthy ok ":    {{Type: "Other"}, {Type: "Healthy", Status: "True", Message: "ok"}},
		"Unhealthy  bad": {{Type: "Healthy", Status: "Unknown", Error: "bad"}},
		"Unknown  ":      {{Type: "Other", Status: "True", Message: "x"}},
	} {
		s := &corev1.ComponentStatus{Conditions: conditions}
		s.Name = "etcd-0"
		words := strings.SplitN(want, " ", 3)
		sameRow(t, ComponentColumns(), ComponentRow(s), "etcd-0", words[0], words[1], words[2])
	}
	for want, got := range map[string]string{
		"Name Data Age": headers(ConfigMapColumns()), "Name Type Data Age": headers(SecretColumns()),
		"Name Age": headers(ServiceAccountColumns()), "Name Status Message Error": headers(ComponentColumns()),
		"Name Desired Current Ready Age (Containers) (Images) (Selector)":               headers(ControllerColumns()),
		"Name Containers Images Pod Labels":                                             headers(PodTemplateColumns()),
		"Name Request Limit Age":                                                        headers(QuotaColumns()),
		"Name Status Age":                                                               headers(NamespaceColumns()),
		"Name Type Cluster-IP External-IP Port(s) Age (Selector)":                       headers(ServiceColumns()),
		"Name Endpoints Age":                                                            headers(EndpointsColumns()),
		"Name Ready Status Restarts Age (IP) (Node) (Nominated Node) (Readiness Gates)": headers(PodColumns()),
		"Name Status Volume Capacity Access Modes StorageClass VolumeAttributesClass Age " +
			"(VolumeMode)": headers(ClaimColumns()),
		"Name Capacity Access Modes Reclaim Policy Status Claim StorageClass VolumeAttributesClass Reason Age " +
			"(VolumeMode)": headers(VolumeColumns()),
		"Name Status Roles Age Version (Internal-IP) (External-IP) (OS-Image) (Kernel-Version) " +
			"(Container-Runtime)": headers(NodeColumns()),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestNamesOfKinds: which names the objects of a kind may have.
func TestNamesOfKinds(t *testing.T) {
	for _, c := range []struct {
		kind      *api.Kind
		good, bad texts
	}{
		{configMaps(), texts{"a", "a.b", "1"}, texts{"A", "a_b", ""}},
		{secrets(), texts{"a.b"}, texts{"a/b"}},
		{serviceAccounts(), texts{"a.b"}, texts{"A"}},
		{namespaces(), texts{"a-b", "1"}, texts{"a.b", "A", strings.Repeat("a", 64)}},
		{services(api.Deps{}), texts{"a-b", "1a"}, texts{"a.b", strings.Repeat("a", 64)}},
		{services(api.Deps{StrictServiceNames: true}), texts{"a-b"}, texts{"1a", "a.b"}},
		{pods(api.Deps{}), texts{"a.b"}, texts{"a_b", strings.Repeat("a", 254)}},
		{nodes(), texts{"a.b"}, texts{"a:b"}},
	} {
		for _, name := range c.good {
			if got := c.kind.Strategy.ValidateName(name, false); len(got) > 0 {
				t.Errorf("%s %q: %q", c.kind.Name, name, got)
			}
		}
		for _, name := range c.bad {
			if got := c.kind.Strategy.ValidateName(name, false); len(got) == 0 {
				t.Errorf("%s %q is a name", c.kind.Name, name)
			}
		}
	}
	sameTexts(t, errorsBelow("", field.ErrorList{forbidImmutable("x")}),
		texts{"x: Forbidden: field is immutable when `immutable` is set"})
}
