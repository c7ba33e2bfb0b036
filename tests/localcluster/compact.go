/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package localcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Compact makes etcd drop old revisions. A watch of the API server from an old revision then fails with "Expired", if
// the API server has dropped it too, as after a restart.
func (c *Cluster) Compact(ctx context.Context) error {
	var status struct {
		Header struct {
			Revision json.Number `json:"revision"`
		} `json:"header"`
	}
	if err := c.callEtcd(ctx, "maintenance/status", struct{}{}, &status); err != nil {
		return err
	}
	compaction := map[string]any{"revision": status.Header.Revision, "physical": true}
	return c.callEtcd(ctx, "kv/compaction", compaction, &struct{}{})
}

// callEtcd calls a method of etcd's gRPC gateway.
func (c *Cluster) callEtcd(ctx context.Context, method string, input, output any) error {
	body, err := json.Marshal(input)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.etcd+"/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s: %s: %s", method, response.Status, answer)
	}
	return json.Unmarshal(answer, output)
}
