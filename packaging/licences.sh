#!/usr/bin/env bash
# licences.sh LIBRARIES VERSION OUT [CUDA_VERSION]: writes the terms of all libraries of a portable executable to
# OUT/libraries.txt, and as SPDX 2.3 to OUT/ridge.spdx.json. LIBRARIES: the folder of libraries.sh.
set -euo pipefail
libraries=$1 version=$2 out=$3 cuda=${4:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# rows: name | package | licence | version | file with the terms
rows() {
  local name package licence
  while IFS='|' read -r name package licence; do
    name=${name% } package=${package//[[:space:]]/} licence=${licence# }
    case $name in '#'* | '') continue ;; esac
    if [ -f "$libraries/version.$package" ]; then
      printf '%s|%s|%s|%s|%s\n' "$name" "$package" "$licence" "$(cat "$libraries/version.$package")" \
        "$libraries/copyright.$package"
    else
      printf '%s|%s|%s|%s|%s\n' "$name" "$package" "$licence" "$(dpkg-query -W -f '${Version}' "$package")" \
        "/usr/share/doc/$package/copyright"
    fi
  done <"$here/libraries.txt"
  [ -z "$cuda" ] || printf 'CUDA runtime|cudart|LicenseRef-NVIDIA-CUDA-EULA|%s|/dev/null\n' "$cuda"
}

rows >"$out/rows"
{
  echo "ridge contains these libraries. Their terms follow."
  while IFS='|' read -r name package licence number terms; do
    printf '%-22s %-24s %s\n' "$name" "$number" "$licence"
  done <"$out/rows"
  while IFS='|' read -r name package licence number terms; do
    printf '\n======== %s\n\n' "$name"
    [ "$terms" = /dev/null ] && echo "https://docs.nvidia.com/cuda/eula" || cat "$terms"
  done <"$out/rows"
} >"$out/libraries.txt"

{
  cat <<JSON
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "ridge-$version",
  "documentNamespace": "urn:ridge:$version",
  "creationInfo": { "created": "$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)", "creators": ["Tool: licences.sh"] },
  "packages": [
    { "name": "ridge", "SPDXID": "SPDXRef-ridge", "versionInfo": "$version", "licenseConcluded": "MIT",
      "licenseDeclared": "MIT", "copyrightText": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": false }
JSON
  i=0
  while IFS='|' read -r name package licence number terms; do
    i=$((i + 1))
    cat <<JSON
    ,{ "name": "$name", "SPDXID": "SPDXRef-$i", "versionInfo": "$number", "licenseConcluded": "NOASSERTION",
      "licenseDeclared": "$licence", "copyrightText": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": false }
JSON
  done <"$out/rows"
  echo '  ],'
  echo '  "hasExtractedLicensingInfos": [{ "licenseId": "LicenseRef-NVIDIA-CUDA-EULA", "name": "CUDA Toolkit EULA",'
  echo '    "extractedText": "https://docs.nvidia.com/cuda/eula" }],'
  echo '  "relationships": ['
  echo '    { "spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-ridge" }'
  for ((k = 1; k <= i; ++k)); do
    echo "    ,{ \"spdxElementId\": \"SPDXRef-ridge\", \"relationshipType\": \"CONTAINS\", \"relatedSpdxElement\": \"SPDXRef-$k\" }"
  done
  echo '  ]'
  echo '}'
} >"$out/ridge.spdx.json"
rm "$out/rows"
