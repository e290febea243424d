// Package serviceaccount gives each pod a service account and mounts its token
// (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#serviceaccount-admission-controller).
package serviceaccount

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/objects"
)

const (
	// Name is the plug-in's.
	Name = "ServiceAccount"
	// DefaultName is the account of pods that name none.
	DefaultName = "default"
	// EnforceMountableSecretsAnnotation limits pods of an account to the secrets that it lists.
	EnforceMountableSecretsAnnotation = "kubernetes.io/enforce-mountable-secrets"

	volumePrefix = "kube-api-access-"
	mountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is an hour and a bit: by the odd value the server knows tokens that it may extend.
	tokenSeconds = 60*60 + 7
)

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
	clock   clock.Clock
	// generate makes a name from a prefix.
	generate func(prefix string) string
}

var (
	_ admission.MutationInterface   = &Plugin{}
	_ admission.ValidationInterface = &Plugin{}
)

// New returns the plug-in.
func New(reader objects.Reader, clk clock.Clock) *Plugin {
	return &Plugin{
		Handler:  admission.NewHandler(admission.Create, admission.Update),
		objects:  reader,
		clock:    clk,
		generate: names.SimpleNameGenerator.GenerateName,
	}
}

// podOf returns the pod that a request is about, and whether it is one to look at.
func podOf(a admission.Attributes) (*corev1.Pod, bool) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetObject() == nil {
		return nil, false
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	return pod, ok
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// Admit sets the account, the mounts of its token, and its pull secrets. A mirror pod shows what a node runs already,
// so it is left alone. It ends with the checks: what is refused is not to be seen by what comes after this plug-in.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	pod, ok := podOf(a)
	if !ok || a.GetOperation() != admission.Create || a.GetSubresource() != "" {
		return nil
	}
	if isMirror(pod) {
		return validateMirror(a, pod)
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = DefaultName
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	account, err := p.account(ctx, a, pod)
	if err != nil {
		return err
	}
	if automounts(account, pod) {
		p.mountToken(pod)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		for _, s := range account.ImagePullSecrets {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s.Name})
		}
	}
	return p.Validate(ctx, a, o)
}

// Validate refuses mirror pods that reach for anything, and pods that use secrets their account does not list, where
// the account asks for that.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := podOf(a)
	if !ok {
		return nil
	}
	switch create := a.GetOperation() == admission.Create; {
	case !create && a.GetSubresource() == "ephemeralcontainers":
		account, err := p.account(ctx, a, pod)
		if err != nil || !enforces(account) {
			return err
		}
		return limitEphemeral(account, pod) // not a Forbidden, nor is it upstream
	case !create || a.GetSubresource() != "":
		return nil
	case isMirror(pod):
		return validateMirror(a, pod)
	}
	account, err := p.account(ctx, a, pod)
	if err != nil || !enforces(account) {
		return err
	}
	if err := limitSecrets(account, pod); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// enforces reads the annotation as a boolean in any of its spellings; what is none is false.
func enforces(account *corev1.ServiceAccount) bool {
	on, err := strconv.ParseBool(account.Annotations[EnforceMountableSecretsAnnotation])
	return err == nil && on
}

func validateMirror(a admission.Attributes, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return admission.NewForbidden(a, fmt.Errorf("a mirror pod may not reference service accounts"))
	}
	if namesSecret(pod) {
		return admission.NewForbidden(a, fmt.Errorf("a mirror pod may not reference secrets"))
	}
	for i := range pod.Spec.Volumes {
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			for j := range projected.Sources {
				if projected.Sources[j].ServiceAccountToken != nil {
					return admission.NewForbidden(a,
						fmt.Errorf("a mirror pod may not use ServiceAccountToken volume projections"))
				}
			}
		}
	}
	return nil
}

// account is that of a pod, which must have one.
func (p *Plugin) account(ctx context.Context, a admission.Attributes, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	name := pod.Spec.ServiceAccountName
	if name == "" {
		return nil, admission.NewForbidden(a,
			fmt.Errorf("no service account specified for pod %s/%s", a.GetNamespace(), pod.Name))
	}
	account, err := p.find(ctx, a.GetNamespace(), name)
	if err != nil {
		return nil, admission.NewForbidden(a,
			fmt.Errorf("error looking up service account %s/%s: %w", a.GetNamespace(), name, err))
	}
	return account, nil
}

// find waits a second for the default account of a new namespace, which a controller makes.
func (p *Plugin) find(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	account, err := objects.As[*corev1.ServiceAccount](
		p.objects.Get(ctx, corev1.Resource("serviceaccounts"), namespace, name))
	attempts := 1
	if name == DefaultName {
		attempts = 10
	}
	for i := 0; apierrors.IsNotFound(err) && i < attempts; i++ {
		if i > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-p.clock.After(100 * time.Millisecond):
			}
		}
		account, err = objects.As[*corev1.ServiceAccount](
			p.objects.Live(ctx, corev1.Resource("serviceaccounts"), namespace, name))
	}
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(corev1.Resource("serviceaccount"), name)
	}
	return account, err
}

// automounts: the pod decides, then the account; the default is to mount.
func automounts(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	if pod.Spec.AutomountServiceAccountToken != nil {
		return *pod.Spec.AutomountServiceAccountToken
	}
	return account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken
}

// mountToken mounts the token where no container has something mounted already, and adds the volume if one needs it.
func (p *Plugin) mountToken(pod *corev1.Pod) {
	name, exists := "", false
	for i := range pod.Spec.Volumes {
		if strings.HasPrefix(pod.Spec.Volumes[i].Name, volumePrefix) {
			name, exists = pod.Spec.Volumes[i].Name, true
			break
		}
	}
	if !exists {
		name = p.generate(volumePrefix)
	}
	mount := corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: mountPath}
	needed := false
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if !mounts(&containers[i], mountPath) {
				containers[i].VolumeMounts = append(containers[i].VolumeMounts, mount)
				needed = true
			}
		}
	}
	if needed && !exists {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: tokenSource()})
	}
}

func mounts(c *corev1.Container, path string) bool {
	for i := range c.VolumeMounts {
		if c.VolumeMounts[i].MountPath == path {
			return true
		}
	}
	return false
}

// tokenSource is a volume with the token, the cluster's root certificate, and the namespace.
func tokenSource() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token",
				ExpirationSeconds: ptr.To[int64](tokenSeconds)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
					FieldPath: "metadata.namespace"}},
			}}},
		},
	}}
}
