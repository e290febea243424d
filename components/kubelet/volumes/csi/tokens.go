package csi

import (
	"context"
	"encoding/json"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokensKey is where a driver finds the tokens of the pod's service account.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// tokenStatus is a token as drivers read it.
type tokenStatus struct {
	Token               string      `json:"token"`
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp"`
}

// addTokens gives the driver the tokens that it asks for, in the volume's context or among the secrets
// (https://kubernetes-csi.github.io/docs/token-requests.html).
func (p *Plugin) addTokens(ctx context.Context, v *volume, request *csispec.NodePublishVolumeRequest) error {
	if v.driver == nil || len(v.driver.Spec.TokenRequests) == 0 {
		return nil
	}
	tokens := map[string]tokenStatus{}
	for _, asked := range v.driver.Spec.TokenRequests {
		value, expiry, err := p.Tokens.GetExpiring(ctx, v.Pod, &v1.ServiceAccountTokenProjection{
			Audience: asked.Audience, ExpirationSeconds: asked.ExpirationSeconds,
		})
		if err != nil {
			return fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to get service account token attributes: %w", err)
		}
		tokens[asked.Audience] = tokenStatus{Token: value, ExpirationTimestamp: metav1.NewTime(expiry)}
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		return err
	}
	if inSecrets := v.driver.Spec.ServiceAccountTokenInSecrets; inSecrets != nil && *inSecrets {
		if request.Secrets == nil {
			request.Secrets = map[string]string{}
		}
		request.Secrets[tokensKey] = string(text)
		return nil
	}
	request.VolumeContext[tokensKey] = string(text)
	return nil
}
