package authn

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
)

// Headers by which a user acts as another.
const (
	headerUser  = "Impersonate-User"
	headerUID   = "Impersonate-Uid"
	headerGroup = "Impersonate-Group"
	headerExtra = "Impersonate-Extra-"
)

// Impersonation lets a user act as another
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation).
type Impersonation struct {
	// Authorizer is asked for the verb "impersonate" on everything that the headers name.
	Authorizer authorizer.Authorizer
	// Refuse answers a request that may not impersonate.
	Refuse func(w http.ResponseWriter, r *http.Request, a authorizer.Attributes, reason string)
	// Fail answers a request whose headers make no sense.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// Filter replaces the user in the context of requests with impersonation headers, and takes the headers out.
func (i *Impersonation) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wanted, err := wantedUser(r.Header)
		if err != nil {
			i.Fail(w, r, err)
			return
		}
		if wanted == nil {
			next.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		requestor, ok := request.UserFrom(ctx)
		if !ok {
			i.Fail(w, r, fmt.Errorf("no user found for the request"))
			return
		}
		for _, a := range impersonationChecks(requestor, wanted) {
			decision, reason, err := i.Authorizer.Authorize(ctx, a)
			if err != nil || decision != authorizer.DecisionAllow {
				klog.FromContext(ctx).V(4).Info("Impersonation refused", "resource", a.Resource, "reason", reason, "err", err)
				i.Refuse(w, r, a, reason)
				return
			}
		}
		completeGroups(wanted)
		klog.FromContext(ctx).V(3).Info("Impersonating", "requestor", requestor.GetName(), "user", wanted.Name)
		r = r.WithContext(request.WithUser(ctx, wanted))
		clearImpersonation(r.Header)
		next.ServeHTTP(w, r)
	})
}

// wantedUser reads the headers; nil means that there are none.
func wantedUser(h http.Header) (*user.DefaultInfo, error) {
	wanted := &user.DefaultInfo{Name: h.Get(headerUser), UID: h.Get(headerUID), Groups: slices.Clone(h.Values(headerGroup))}
	for name, values := range h {
		if key, ok := cutPrefixFold(name, headerExtra); ok {
			if wanted.Extra == nil {
				wanted.Extra = map[string][]string{}
			}
			key = unescape(strings.ToLower(key))
			wanted.Extra[key] = append(wanted.Extra[key], values...)
		}
	}
	if wanted.Name != "" {
		return wanted, nil
	}
	if wanted.UID != "" || len(wanted.Groups) > 0 || len(wanted.Extra) > 0 {
		return nil, fmt.Errorf("requested impersonation of a uid, groups or extra values without impersonating a user: set %s", headerUser)
	}
	return nil, nil
}

// impersonationChecks lists what the requestor must be allowed.
func impersonationChecks(requestor, wanted user.Info) []authorizer.AttributesRecord {
	base := authorizer.AttributesRecord{User: requestor, Verb: "impersonate", APIVersion: "v1", ResourceRequest: true}
	check := func(group, resource, subresource, namespace, name string) authorizer.AttributesRecord {
		a := base
		a.APIGroup, a.Resource, a.Subresource, a.Namespace, a.Name = group, resource, subresource, namespace, name
		return a
	}
	const authentication = "authentication.k8s.io"
	var checks []authorizer.AttributesRecord
	if namespace, name, err := serviceaccount.SplitUsername(wanted.GetName()); err == nil {
		checks = append(checks, check("", "serviceaccounts", "", namespace, name))
	} else {
		checks = append(checks, check("", "users", "", "", wanted.GetName()))
	}
	for _, g := range wanted.GetGroups() {
		checks = append(checks, check("", "groups", "", "", g))
	}
	for key, values := range wanted.GetExtra() {
		for _, v := range values {
			checks = append(checks, check(authentication, "userextras", key, "", v))
		}
	}
	if uid := wanted.GetUID(); uid != "" {
		checks = append(checks, check(authentication, "uids", "", "", uid))
	}
	return checks
}

// completeGroups adds the groups that authentication would have added.
func completeGroups(u *user.DefaultInfo) {
	if len(u.Groups) == 0 {
		if namespace, _, err := serviceaccount.SplitUsername(u.Name); err == nil {
			u.Groups = serviceaccount.MakeGroupNames(namespace)
		}
	}
	add := user.AllAuthenticated
	if u.Name == user.Anonymous {
		add = user.AllUnauthenticated
	}
	if !slices.Contains(u.Groups, user.AllAuthenticated) && !slices.Contains(u.Groups, user.AllUnauthenticated) {
		u.Groups = append(u.Groups, add)
	}
}

func clearImpersonation(h http.Header) {
	h.Del(headerUser)
	h.Del(headerUID)
	h.Del(headerGroup)
	for name := range h {
		if _, ok := cutPrefixFold(name, headerExtra); ok {
			delete(h, name)
		}
	}
}
