<?xml version="1.0" encoding="UTF-8"?>
<!-- SPDX-License-Identifier: MIT
     Turns the catalogue into a page by subject, with keys, sorting and recursion, and checks its totals. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html" encoding="UTF-8" indent="no"/>
  <xsl:key name="author" match="author" use="@id"/>
  <xsl:key name="subject" match="book" use="@subject"/>

  <xsl:template match="/catalogue">
    <xsl:if test="count(book) != totals/@books or sum(book/price) != totals/@price">
      <xsl:message terminate="yes">the catalogue's totals do not agree with its books</xsl:message>
    </xsl:if>
    <html>
      <body>
        <xsl:for-each select="subject">
          <xsl:sort select="@id" order="descending"/>
          <h1><xsl:value-of select="@id"/></h1>
          <p><xsl:value-of select="sum(key('subject', @id)/price)"/></p>
          <ul>
            <xsl:apply-templates select="key('subject', @id)">
              <xsl:sort select="price" data-type="number" order="descending"/>
              <xsl:sort select="key('author', @author)/name"/>
            </xsl:apply-templates>
          </ul>
        </xsl:for-each>
      </body>
    </html>
  </xsl:template>

  <xsl:template match="book">
    <xsl:text>&#10;</xsl:text>
    <li id="{@id}">
      <b><xsl:value-of select="translate(title, 'aeiou', 'AEIOU')"/></b>
      <xsl:value-of select="concat(', ', key('author', @author)/name, ', ', price)"/>
      <xsl:apply-templates select="review">
        <xsl:sort select="@stars" data-type="number"/>
      </xsl:apply-templates>
    </li>
  </xsl:template>

  <xsl:template match="review">
    <i>
      <xsl:call-template name="repeat">
        <xsl:with-param name="times" select="@stars"/>
      </xsl:call-template>
      <xsl:value-of select="normalize-space(.)"/>
    </i>
  </xsl:template>

  <xsl:template name="repeat">
    <xsl:param name="times"/>
    <xsl:if test="$times &gt; 0">
      <xsl:text>*</xsl:text>
      <xsl:call-template name="repeat">
        <xsl:with-param name="times" select="$times - 1"/>
      </xsl:call-template>
    </xsl:if>
  </xsl:template>
</xsl:stylesheet>
