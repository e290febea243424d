package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// operationTexts writes operations as "id | description | parameters | response", by method and path.
func operationTexts() map[string]string {
	c := newContent(kinds.Table(api.Deps{}), nil, "v1.36.0", Form{})
	all := c.roots()
	for i := range c.groups {
		all = append(all, c.groups[i].operations()...)
	}
	out := map[string]string{}
	for _, list := range byPath(all) {
		var shared []string
		for _, p := range common(list) {
			shared = append(shared, p.name)
		}
		for _, o := range list {
			var own []string
			for _, p := range o.parameters {
				own = append(own, p.name)
			}
			response := o.response[strings.LastIndexByte(o.response, '.')+1:]
			out[o.method+" "+o.path] = fmt.Sprintf("%s | %s | %s + %s | %s %s", o.id, o.description,
				strings.Join(shared, ","),
				strings.Join(own, ","), response, strings.Join(o.codes, ","))
		}
	}
	return out
}

const (
	listParameters = "allowWatchBookmarks,continue,fieldSelector,labelSelector,limit,resourceVersion,resourceVersionMatch,sendInitialEvents," +
		"shardSelector,timeoutSeconds,watch"
	deleteParameters = "dryRun,gracePeriodSeconds,ignoreStoreReadErrorWithClusterBreakingPotential,orphanDependents,propagationPolicy"
)

func TestOperations(t *testing.T) {
	got := operationTexts()
	for at, want := range map[string]string{
		"get /api/":    "getCoreAPIVersions | get available API versions |  +  | APIVersions 200",
		"get /api/v1/": "getCoreV1APIResources | get available resources |  +  | APIResourceList 200",
		"get /apis/rbac.authorization.k8s.io/": "getRbacAuthorizationAPIGroup | get information of a group |  +  | " +
			"APIGroup 200",
		"get /api/v1/nodes": "listCoreV1Node | list or watch objects of kind Node | pretty + " +
			listParameters + " | NodeList 200",
		"delete /api/v1/namespaces/{namespace}/configmaps": "deleteCoreV1CollectionNamespacedConfigMap | delete collection " +
			"of ConfigMap | " +
			"namespace,pretty + " +
			"continue,dryRun,fieldSelector,gracePeriodSeconds,ignoreStoreReadErrorWithClusterBreakingPotential,labelSelector," +
			"limit,orphanDependents,propagationPolicy,resourceVersion,resourceVersionMatch,sendInitialEvents,shardSelector,timeoutSeconds | Status 200",
		"delete /apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses/{name}": "deleteNetworkingV1NamespacedIngress " +
			"| delete an Ingress | " +
			"name,namespace,pretty + " + deleteParameters + " | Status 200,202",
		"delete /api/v1/namespaces/{namespace}/endpoints/{name}": "deleteCoreV1NamespacedEndpoints | delete Endpoints | " +
			"name,namespace,pretty + " + deleteParameters + " | Status 200,202",
		"delete /api/v1/namespaces/{name}": "deleteCoreV1Namespace | delete a Namespace | name,pretty + " +
			deleteParameters + " | Status 200,202",
		"delete /apis/resource.k8s.io/v1/deviceclasses/{name}": "deleteResourceV1DeviceClass | delete a DeviceClass | " +
			"name,pretty + " + deleteParameters + " | DeviceClass 200,202",
		"post /api/v1/namespaces/{namespace}/pods/{name}/eviction": "createCoreV1NamespacedPodEviction | create eviction " +
			"of a Pod | " +
			"dryRun,fieldManager,fieldValidation,name,namespace,pretty +  | Eviction 200,201,202",
		"get /api/v1/namespaces/{namespace}/pods/{name}/log": "readCoreV1NamespacedPodLog | read log of the specified Pod " +
			"| container,follow," +
			"insecureSkipTLSVerifyBackend,limitBytes,name,namespace,pretty,previous,sinceSeconds,stream,tailLines,timestamps " +
			"+  |  200",
		"post /api/v1/namespaces/{namespace}/pods/{name}/exec": "connectCoreV1PostNamespacedPodExec | connect POST " +
			"requests to exec of Pod | " +
			"command,container,name,namespace,stderr,stdin,stdout,tty +  |  200",
		"options /api/v1/nodes/{name}/proxy/{path}": "connectCoreV1OptionsNodeProxyWithPath | connect OPTIONS requests to " +
			"proxy of Node | " +
			"name,path,path +  |  200",
		"patch /apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale": "patchAppsV1NamespacedDeploymentScale | " +
			"partially update scale of the specified Deployment | name,namespace,pretty + " +
			"dryRun,fieldManager,fieldValidation,force | Scale 200,201",
		"get /api/v1/watch/pods": "watchCoreV1PodListForAllNamespaces | watch individual changes to a list of Pod. " +
			"deprecated: use the 'watch' " +
			"parameter with a list operation instead. | " +
			strings.Replace(listParameters, "resourceVersion,", "pretty,resourceVersion,", 1) +
			" +  | WatchEvent 200",
		"get /api/v1/watch/nodes/{name}": "watchCoreV1Node | watch changes to an object of kind Node. deprecated: use the " +
			"'watch' parameter with " +
			"a list operation instead, filtered to a single item with the 'fieldSelector' parameter. | " +
			strings.Replace(listParameters, "resourceVersion,", "name,pretty,resourceVersion,", 1) +
			" +  | WatchEvent 200",
	} {
		if got[at] != want {
			t.Errorf("%s:\n%s, want\n%s", at, got[at], want)
		}
	}
	if _, ok := got["head /api/v1/namespaces/{namespace}/pods/{name}/exec"]; ok {
		t.Error("HEAD of exec")
	}
}

// TestSharedParameters: the names of what v2 shares are made of the content, as kube-openapi makes them, so that
// documents can be merged.
func TestSharedParameters(t *testing.T) {
	server := serve(t)
	_, body := get(t, server.URL+"/openapi/v2")
	var doc struct {
		Parameters map[string]any
		Paths      map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"allowWatchBookmarks-HC2hJt-J", "body-2Y1dVQaQ", "namespace-vgWSWtn3",
		"pretty-tJGM1-ng"} {
		if doc.Parameters[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if patch := string(doc.Paths["/api/v1/nodes/{name}"]["patch"]); !strings.Contains(patch,
		`"name":"fieldValidation"`) {
		t.Errorf("kubectl doesn't find fieldValidation in %s", patch)
	}
}

// TestRoots: there are documents of what is no resource, and each document's own version is all that its options name.
func TestRoots(t *testing.T) {
	server := serve(t)
	all := index(t, server)
	for _, path := range []string{"api", "apis", "apis/apps", "version", ".well-known/openid-configuration",
		"openid/v1/jwks"} {
		if all[path] == "" {
			t.Errorf("the index lacks %s", path)
		}
	}
	_, body := get(t, all["apis/apps/v1"])
	var doc struct {
		Info       struct{ Version string }
		Components struct {
			Schemas map[string]struct {
				Kinds []struct{ Group string } `json:"x-kubernetes-group-version-kind"`
			}
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, k := range doc.Components.Schemas[deleteOptions].Kinds {
		groups = append(groups, k.Group)
	}
	if !slices.Equal(groups, []string{"", "apps"}) || doc.Info.Version != "1.36" {
		t.Errorf("groups %q, version %s", groups, doc.Info.Version)
	}
}

// TestIDs: what names in programs can't have is left out of ids and tags, and a capital follows.
func TestIDs(t *testing.T) {
	for _, c := range []struct{ group, version, kind, id, tag string }{
		{"", "v1", "Pod", "listCoreV1NamespacedPod", "core_v1"},
		{"rbac.authorization.k8s.io", "v1", "Role", "listRbacAuthorizationV1NamespacedRole", "rbacAuthorization_v1"},
		{"cluster.x-k8s.io", "v1beta2", "Machine", "listClusterXK8sIoV1beta2NamespacedMachine",
			"clusterXK8sIo_v1beta2"},
		{"1a.my-group.example.com", "v1-x", "Some-thing", "listAMyGroupExampleComV1XNamespacedSomeThing",
			"AMyGroupExampleCom_v1X"},
		{"a.io", "v1", "lower", "listAIoV1Namespacedlower", "aIo_v1"},
	} {
		kind := api.Kind{Namespaced: true}
		kind.Name = c.kind
		b := builder{group: &groupVersion{GroupVersion: schema.GroupVersion{Group: c.group, Version: c.version}},
			kind: &kind}
		if id, tag := b.id("list", b.scope(), ""), b.group.tag(); id != c.id || tag != c.tag {
			t.Errorf("%s/%s %s: %s, %s; want %s, %s", c.group, c.version, c.kind, id, tag, c.id, c.tag)
		}
	}
}
