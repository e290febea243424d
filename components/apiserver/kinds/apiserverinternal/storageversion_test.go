package apiserverinternal

import (
	"strings"
	"testing"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
)

func TestValidName(t *testing.T) {
	for name, want := range map[string]string{
		"apps.deployments": "", "a.b.c": "",
		"a":    "name must be in the form of <group>.<resource>",
		"A.b":  "the group segment a lowercase RFC 1123 subdomain",
		"a.1b": "the resource segment a DNS-1035 label",
	} {
		got := strings.Join(ValidName(name, false), ", ")
		if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestValidateStatus(t *testing.T) {
	server := func(id, version string, decodable ...string) internalv1alpha1.ServerStorageVersion {
		return internalv1alpha1.ServerStorageVersion{APIServerID: id, EncodingVersion: version,
			DecodableVersions: append(decodable, version)}
	}
	common := func(v string) *string { return &v }
	served := server("a", "v1")
	served.ServedVersions = []string{"v2"}
	type servers = []internalv1alpha1.ServerStorageVersion
	for name, test := range map[string]struct {
		servers servers
		common  *string
		want    string
	}{
		"nothing": {nil, nil, ""},
		"one":     {servers{server("a", "apps/v1")}, common("apps/v1"), ""},
		"not told": {servers{server("a", "apps/v1")}, nil,
			"status.commonEncodingVersion: Invalid value: null: the common encoding version is apps/v1"},
		"told otherwise": {servers{server("a", "apps/v1")}, common("v2"),
			`"v2": the actual common encoding version is apps/v1`},
		"no agreement": {servers{server("a", "v1"), server("b", "v2")}, common("v1"),
			"should be nil if servers do not agree"},
		"twice": {servers{server("a", "v1"), server("a", "v1")}, common("v1"),
			`status.storageVersions[1].apiServerID: Duplicate value: "a"`},
		"no name": {servers{server("A_", "v1")}, common("v1"),
			"status.storageVersions[0].apiServerID: Invalid value"},
		"version": {servers{server("a", "a/b/c")}, common("a/b/c"),
			"status.storageVersions[0].encodingVersion: Invalid value: \"a/b/c\": an apiVersion is"},
		"no group": {servers{server("a", "/v1")}, common("/v1"), "group part: must be non-empty"},
		"served": {servers{served}, common("v1"),
			"individual served version : v2 must be included in decodableVersions : [v1]"},
		"not decodable": {servers{{APIServerID: "a", EncodingVersion: "v1"}}, common("v1"),
			"decodableVersions must include encodingVersion v1"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &storageVersion{Status: internalv1alpha1.StorageVersionStatus{StorageVersions: test.servers,
				CommonEncodingVersion: test.common}}
			errs := ValidateStatus(v, nil)
			if (len(errs) == 0) != (test.want == "") ||
				test.want != "" && !strings.Contains(errs.ToAggregate().Error(), test.want) {
				t.Errorf("%v, want %q", errs, test.want)
			}
		})
	}
	c := internalv1alpha1.StorageVersionCondition{Type: "T", Status: "True"}
	v := &storageVersion{Status: internalv1alpha1.StorageVersionStatus{
		Conditions: []internalv1alpha1.StorageVersionCondition{c, c}}}
	text := ValidateStatus(v, nil).ToAggregate().Error()
	for _, part := range []string{"status[0].reason: Required value",
		"status[1].type: Invalid value: \"T\": the type of the condition is not unique, it also appears in conditions[0]",
		"status[1].message"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s; want %s", text, part)
		}
	}
}
