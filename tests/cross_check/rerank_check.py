#!/usr/bin/env python3
"""Clients that rank documents, against ridge serve: each by what is installed of it.

    pip install cohere langchain-classic langchain-cohere langchain-community
    pip install open-webui          # 7 GB; its module alone will do
    tests/cross_check/rerank_check.py build/release/ridge -m RERANKER.gguf
"""

import requests
import serving

QUERY = "What does the cat eat?"
DOCUMENTS = ["The cat eats fish.", "Rain falls in Spain.", "", "Numbers: 1, 2, 3."]


def scores(url):
    answer = requests.post(url + "/v1/score", json={"text_1": QUERY, "text_2": DOCUMENTS})
    answer.raise_for_status()
    return [row["score"] for row in answer.json()["data"]]


def best(url, count):
    """The indices of the highest scores, and the scores."""
    all_scores = scores(url)
    assert len(set(all_scores)) == len(DOCUMENTS), all_scores
    order = sorted(range(len(DOCUMENTS)), key=lambda i: -all_scores[i])[:count]
    return order, [all_scores[i] for i in order]


def same(a, b):
    return len(a) == len(b) and all(abs(x - y) < 1e-5 for x, y in zip(a, b))


def cohere(url, model):
    for client in (cohere_client("Client", url), cohere_client("ClientV2", url)):
        order, wanted = best(url, 2)
        results = client.rerank(model=model, query=QUERY, documents=DOCUMENTS, top_n=2).results
        assert [r.index for r in results] == order and same([r.relevance_score for r in results], wanted), results


def cohere_client(name, url):
    import cohere

    return getattr(cohere, name)(api_key="none", base_url=url)


def documents():
    from langchain_core.documents import Document

    return [Document(text, metadata={"place": i}) for i, text in enumerate(DOCUMENTS)]


def langchain_cohere(url, model):
    from langchain_cohere import CohereRerank

    ranker = CohereRerank(client=cohere_client("ClientV2", url), model=model, top_n=3)
    order, wanted = best(url, 3)
    found = ranker.compress_documents(documents(), QUERY)
    assert [d.metadata["place"] for d in found] == order, found
    assert same([d.metadata["relevance_score"] for d in found], wanted), found


def langchain_community(url, model):
    from langchain_community.document_compressors import jina_rerank

    jina_rerank.JINA_API_URL = url + "/v1/rerank"
    ranker = jina_rerank.JinaRerank(jina_api_key="none", model=model, top_n=2)
    found = ranker.compress_documents(documents(), QUERY)
    assert [d.metadata["place"] for d in found] == best(url, 2)[0], found


def langchain_classic(url, model):
    from langchain_classic.retrievers.document_compressors import CrossEncoderReranker
    from langchain_classic.retrievers.document_compressors.cross_encoder import BaseCrossEncoder

    class CrossEncoder(BaseCrossEncoder):
        def score(self, text_pairs):
            first, second = zip(*text_pairs)
            answer = requests.post(url + "/score", json={"model": model, "text_1": first, "text_2": second})
            answer.raise_for_status()
            return [row["score"] for row in answer.json()["data"]]

    found = CrossEncoderReranker(model=CrossEncoder(), top_n=3).compress_documents(documents(), QUERY)
    assert [d.metadata["place"] for d in found] == best(url, 3)[0], found


def open_webui(url, model):
    from open_webui.retrieval.models.external import ExternalReranker

    ranker = ExternalReranker("none", url + "/v1/rerank", model)
    assert same(ranker.predict([(QUERY, text) for text in DOCUMENTS]), scores(url))


if __name__ == "__main__":
    serving.run([cohere, langchain_cohere, langchain_community, langchain_classic, open_webui])
